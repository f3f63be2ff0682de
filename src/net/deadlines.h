// Numbers with a deadline each, soonest first: a binary heap that knows where each one is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace perigee {

class Deadlines {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;

  void set(uint64_t id, uint64_t deadline_ns);  // a second time: the new deadline
  void erase(uint64_t id);
  bool contains(uint64_t id) const { return where_.contains(id); }
  size_t size() const { return heap_.size(); }
  uint64_t soonest() const { return heap_.empty() ? kNever : heap_.front().deadline_ns; }
  // Takes out the soonest one that is due; false when none is.
  bool take_due(uint64_t now_ns, uint64_t* id);

 private:
  struct Entry {
    uint64_t deadline_ns = 0, id = 0;
  };
  static bool before(const Entry& a, const Entry& b) {
    return a.deadline_ns != b.deadline_ns ? a.deadline_ns < b.deadline_ns : a.id < b.id;
  }
  void place(size_t at, Entry entry);
  void rise(size_t at);
  void sink(size_t at);

  std::vector<Entry> heap_;
  std::unordered_map<uint64_t, size_t> where_;
};

}  // namespace perigee
