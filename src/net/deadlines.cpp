#include "src/net/deadlines.h"

#include <cassert>

namespace perigee {

void Deadlines::place(size_t at, Entry entry) {
  heap_[at] = entry;
  where_[entry.id] = at;
}

void Deadlines::rise(size_t at) {
  const Entry entry = heap_[at];
  for (; at > 0 && before(entry, heap_[(at - 1) / 2]); at = (at - 1) / 2) place(at, heap_[(at - 1) / 2]);
  place(at, entry);
}

void Deadlines::sink(size_t at) {
  const Entry entry = heap_[at];
  for (size_t child; (child = 2 * at + 1) < heap_.size(); at = child) {
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], entry)) break;
    place(at, heap_[child]);
  }
  place(at, entry);
}

void Deadlines::set(uint64_t id, uint64_t deadline_ns) {
  const auto [known, added] = where_.try_emplace(id, heap_.size());
  const size_t at = known->second;
  if (added) heap_.push_back({deadline_ns, id});
  assert(at < heap_.size() && heap_[at].id == id);
  heap_[at].deadline_ns = deadline_ns;
  rise(at);
  sink(where_[id]);
}

void Deadlines::erase(uint64_t id) {
  const auto known = where_.find(id);
  if (known == where_.end()) return;
  const size_t at = known->second;
  where_.erase(known);
  const Entry last = heap_.back();
  heap_.pop_back();
  if (at == heap_.size()) return;
  place(at, last);
  rise(at);
  sink(where_[last.id]);
}

bool Deadlines::take_due(uint64_t now_ns, uint64_t* id) {
  if (heap_.empty() || heap_.front().deadline_ns > now_ns) return false;
  *id = heap_.front().id;
  erase(*id);
  return true;
}

}  // namespace perigee
