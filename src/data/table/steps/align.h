// Beside each row that of another table which is nearest in time.
#pragma once

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
  Json state() const override { return right_.state(); }
  void set_state(const Config& state) override;
  void apply(Frame& frame) const override;

 private:
  void sort_by_time();
  const Column& time_column(const Frame& frame, const std::string& name) const;
  int64_t nearest(const Frame& frame, const std::vector<size_t>& left, int64_t row) const;

  RightTable right_;
  std::vector<std::string> on_;
  std::string where_, time_, right_time_, match_;
  int64_t within_;
  std::unordered_map<uint64_t, std::vector<int64_t>> by_time_;  // the right rows of each key
};

}  // namespace perigee::tables
