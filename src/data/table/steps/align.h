// Beside each row that of another table which is nearest in time.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/data/table/steps/right_table.h"

namespace perigee::tables {

class Align : public Step {
 public:
  Align(const Config& config, const StepContext& context);

  bool is_fitted() const override { return right_.is_read(); }
  bool fits_alone() const override { return true; }
  void fit(const Frame&) override;
  bool only_spilled() const override { return right_.is_large(); }
  std::unique_ptr<FrameSink> spilled(const TableRoom& room, const UseFrame& next) const override;
  Json state() const override { return right_.state(); }
  void set_state(const Config& state) override;
  void apply(Frame& frame) const override;

  // The same with another right table.
  void set_right(Frame right);
  const RightTable& right() const { return right_; }
  std::vector<size_t> left_keys(const Frame& frame) const { return columns_of(frame, on_, where_); }
  size_t left_time(const Frame& frame) const { return time_column(frame, time_); }
  size_t right_time(const Frame& right) const { return time_column(right, right_time_); }
  const std::string& where() const { return where_; }

 private:
  void sort_by_time();
  size_t time_column(const Frame& frame, const std::string& name) const;
  int64_t nearest(const Frame& frame, const std::vector<size_t>& left, int64_t row) const;

  RightTable right_;
  std::vector<std::string> on_;
  std::string where_, time_, right_time_, match_;
  int64_t within_;
  std::unordered_map<uint64_t, std::vector<int64_t>> by_time_;  // the right rows of each key
};

// A right table that is larger than the memory.
std::unique_ptr<FrameSink> spilled_align(const TableRoom& room, const Align& align, UseFrame next);

}  // namespace perigee::tables
