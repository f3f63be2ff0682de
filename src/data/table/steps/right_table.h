// The other table of the steps join and align: a file, or rows that stand in the step; its keys, and its columns beside those of a table.
#pragma once

#include <string>
#include <vector>

#include "src/data/table/steps.h"

namespace perigee::tables {

// A number that rows with equal keys share, of whatever types.
uint64_t key_hash(const Frame& frame, const std::vector<size_t>& columns, int64_t row);
// Adds columns of `right`, but those that are `left_out`, with its rows in this order; -1: missing. A name that is taken gets "_right".
void add_right_columns(Frame& out, const Frame& right, const std::vector<size_t>& left_out, const std::vector<int64_t>& rows);

class RightTable {
 public:
  // `key`: the option that names or has the table. Keys are `on` in the left table, and here `right_on` or the same.
  RightTable(const Config& config, const char* key, const StepContext& context);

  bool is_read() const { return read_; }
  // A file that is larger than the memory: it stays where it is.
  bool is_large() const { return large_; }
  void read();
  void set(Frame right);
  // The table itself, so that a model needs no other file. Error(data) for one that is too large.
  Json state() const;
  void set_state(const Config& state);

  const Frame& frame() const { return right_; }
  Frame take() { return std::move(right_); }
  // Those of such a table. Error(data) at the step for a name that is none of its columns.
  std::vector<size_t> keys_of(const TableSchema& schema) const;
  const std::vector<size_t>& keys() const { return keys_; }
  std::string path() const;
  // Whether the keys are equal; nothing is equal to a missing one.
  bool same(const Frame& frame, const std::vector<size_t>& left, int64_t row, int64_t right_row) const;

 private:
  Frame given(const Json& json) const;
  Json table_;
  StepContext context_;
  std::vector<std::string> on_;
  bool read_ = false, large_ = false;
  Frame right_;
  std::vector<size_t> keys_;
};

}  // namespace perigee::tables
