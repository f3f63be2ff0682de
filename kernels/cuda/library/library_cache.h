// Objects that a library made for calls of one kind (layouts, plans, compiled code), keyed by what the calls have in common: at most kMost of a queue,
// least recently used evicted. An object that a captured call used lives as long as its graph, which may run its code, and does
// not count as long as it does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

namespace perigee {

// The objects that the calls of a capture used; the graph holds them after the capture ends.
using HeldByGraph = std::set<std::shared_ptr<const void>>;

// Per thread: objects used after begin are held until end, which returns them. Captures may overlap: each gets what any of them
// used.
void begin_holding();
HeldByGraph end_holding();
void hold_for_capture(const std::shared_ptr<const void>& used);

template <class Key, class Value, class Hash = std::hash<Key>>
class LibraryCache {
 public:
  static constexpr size_t kMost = 512;

  // The object of the key, or a new one.
  Value& at(const Key& key, bool* fresh) {
    Entry& entry = entries_[key];
    entry.used = ++uses_;
    *fresh = entry.value == nullptr;
    if (*fresh) entry.value = std::make_shared<Value>();
    const std::shared_ptr<Value> value = entry.value;  // not among what may go
    while (*fresh && entries_.size() > kMost && drop_oldest()) {}
    hold_for_capture(value);
    return *value;
  }

  void erase(const Key& key) { entries_.erase(key); }
  void clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::shared_ptr<Value> value;
    uint64_t used = 0;
  };

  bool drop_oldest() {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
      if (entry->second.value.use_count() == 1 && (oldest == entries_.end() || entry->second.used < oldest->second.used)) oldest = entry;
    if (oldest == entries_.end()) return false;
    entries_.erase(oldest);
    return true;
  }

  std::unordered_map<Key, Entry, Hash> entries_;
  uint64_t uses_ = 0;
};

}  // namespace perigee
