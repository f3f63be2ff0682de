// Names of elements (words, labels, nodes of a graph), their numbers and how often each comes. Names lie in one block of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

class ElementTable {
 public:
  static constexpr int64_t kMost = int64_t{1} << 26;

  // The number of `name`, a new one if it has none, with `count` added to its count. Error(resources) beyond kMost.
  int32_t add(std::string_view name, int64_t count);
  int32_t find(std::string_view name) const;  // -1: it is not there
  int64_t size() const { return static_cast<int64_t>(counts_.size()); }
  std::string_view name(int64_t number) const {
    const auto i = static_cast<size_t>(number);
    return std::string_view(bytes_).substr(begins_[i], begins_[i + 1] - begins_[i]);
  }
  int64_t count(int64_t number) const { return counts_[static_cast<size_t>(number)]; }
  int64_t total() const { return total_; }  // of all counts
  size_t bytes() const;                     // of memory

  // Those that come at least `least` times, the most frequent `most` of them: the most frequent first, equally frequent ones in the order of
  // their bytes.
  ElementTable ranked(int64_t least, int64_t most) const;
  std::vector<std::string> nearest_names(std::string_view name) const;  // a few that are written like it

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t number = -1;
  };
  size_t slot_of(std::string_view name, uint64_t hash) const;
  void place(size_t slots);  // anew, in so many

  std::string bytes_;
  std::vector<uint64_t> begins_ = {0};  // one more than there are names
  std::vector<int64_t> counts_;
  std::vector<Slot> slots_;  // at most two thirds in use
  int64_t total_ = 0;
};

}  // namespace perigee
