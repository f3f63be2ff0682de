// Numbers of texts, and what steps do with such numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/table/frame.h"

namespace perigee::tables {

// Numbers of texts in the order in which they came.
class TextTable {
 public:
  TextTable();
  // `there`: eight bytes may be read where the text begins.
  int64_t find(std::string_view text, bool there = false) const;  // -1: it is not there
  int64_t add(std::string_view text, bool there = false);         // its number, new or not
  size_t size() const { return ends_.size(); }
  std::string_view text(size_t number) const;

 private:
  // The loops look at slots: of a short text they say everything.
  struct Slot {
    uint64_t hash = 0;
    uint32_t size = 0;
    int32_t number = -1;
  };
  const Slot& slot_of(std::string_view text, uint64_t hash) const;
  int64_t add_new(std::string_view text, uint64_t hash, const Slot& slot);
  void grow();
  std::string bytes_;
  std::vector<uint64_t> ends_;
  std::vector<Slot> slots_;
};

// Adds what a column of texts has; false beyond `most` of them. `out`, if there is one: the number of each row, -1 where it is missing.
bool add_texts(const Column& column, size_t most, TextTable& table, std::vector<int64_t>* out = nullptr);
// Each number becomes what `by` has in its place; what is less than 0 stays.
void renumber(std::vector<int64_t>& numbers, const std::vector<int64_t>& by);
// The number of each text of a column without gaps, which are added; `first`: the first row of each.
void number_texts(const Column& column, TextTable& table, std::vector<int64_t>& out, std::vector<int64_t>& first);
// The number of each text, -1 where it is missing or not in the table.
void find_texts(const Column& column, const TextTable& table, std::vector<int64_t>& out);

// Zeros, and a one in the column of each row's number, if it has one.
void one_hot(const std::vector<int64_t>& numbers, std::vector<std::vector<int64_t>>& out);

}  // namespace perigee::tables
