// A map of bounded size: a new entry takes the place of the one that was used the longest ago. Not thread-safe.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace perigee {

template <class Key, class Value>
class LruMap {
 public:
  explicit LruMap(size_t most) : most_(most) { assert(most > 0); }

  // The value, which counts as used now; null when there is none. It stays where it is until it is erased.
  Value* find(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    found->second.used = ++clock_;
    return &found->second.value;
  }

  // Adds a value for a key that has none.
  Value& insert(const Key& key, Value value) {
    assert(!entries_.contains(key));
    if (entries_.size() >= most_)
      entries_.erase(
          std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
    return entries_.emplace(key, Entry{std::move(value), ++clock_}).first->second.value;
  }

  bool full() const { return entries_.size() >= most_; }
  size_t size() const { return entries_.size(); }
  void erase(const Key& key) { entries_.erase(key); }
  void clear() { entries_.clear(); }

  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [key, entry] : entries_) visit(key, entry.value);
  }

 private:
  struct Entry {
    Value value;
    uint64_t used = 0;
  };

  size_t most_;
  uint64_t clock_ = 0;
  std::map<Key, Entry> entries_;
};

}  // namespace perigee
