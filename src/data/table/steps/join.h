// Rows of two tables with equal keys side by side: how the step join (join.cpp) and its way by the disk (spilled_join.cpp) share it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/data/table/steps/right_table.h"

namespace perigee::tables {

class Join : public Step {
 public:
  Join(const Config& config, const StepContext& context);

  bool is_fitted() const override { return right_.is_read(); }
  bool fits_alone() const override { return true; }
  void fit(const Frame&) override;
  bool only_spilled() const override { return right_.is_large(); }
  std::unique_ptr<FrameSink> spilled(const TableRoom& room, const UseFrame& next) const override;
  Json state() const override { return right_.state(); }
  void set_state(const Config& state) override;
  // In a right or outer join, rows of the right table that no left row has come last: they need all left rows.
  bool by_rows() const override { return how_ == "inner" || how_ == "left"; }
  void apply(Frame& frame) const override;

  // The same with another right table.
  void set_right(Frame right);
  // `used`: 1 for each right row that has a left one. `rest`: those that have none come last.
  void join_rows(Frame& frame, std::vector<uint8_t>& used, bool rest) const;
  // Rows that only the right table has; the categories of the left one may grow.
  Frame right_only(TableSchema& left, const std::vector<size_t>& left_keys, const Frame& right, const std::vector<size_t>& right_keys,
                   bool numbered) const;
  RightTable& right() { return right_; }
  const RightTable& right() const { return right_; }
  std::vector<size_t> left_keys(const Frame& frame) const { return columns_of(frame, on_, where_); }
  bool keeps_right() const { return how_ == "right" || how_ == "outer"; }

 private:
  bool looks_up(const Frame& frame, const std::vector<size_t>& left) const;
  void apply_table(Frame& frame, const Column& key) const;
  void list_rows();
  void index();
  void fill_key(Column& column, ColumnSpec& spec, const Frame& right, size_t key, const std::vector<int64_t>& left_rows,
                const std::vector<int64_t>& right_rows) const;

  RightTable right_;
  std::vector<std::string> on_;
  std::string how_, where_;
  std::unordered_multimap<uint64_t, int64_t> rows_of_;
  std::vector<int64_t> table_of_ = {};  // of each key from least_ on its row; empty: keys are no short range
  int64_t least_ = 0;
};

// A right table that is larger than the memory: both tables in parts by their keys.
std::unique_ptr<FrameSink> spilled_join(const TableRoom& room, const Join& join, UseFrame next);
// A right table in memory, of which the rows that no left row has come last.
std::unique_ptr<FrameSink> outer_join(const Join& join, UseFrame next);

}  // namespace perigee::tables
