// The numbers that rows carry from step to step (src/nn/carried.h): those at the start of the step, and the next ones, which take their place
// when the step is done. Threads that work on rows of their own may bind and take at once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/graph/plan.h"
#include "src/model/model.h"

namespace perigee {

// Copies the elements of `from` to `to`, one behind the other in row-major order.
void copy_packed(const View& from, std::byte* to);

// The values of a network, which rows of as many sessions as there are share.
struct CarriedLayout {
  explicit CarriedLayout(std::vector<CarriedSpec> of);
  std::vector<CarriedSpec> specs;
  std::vector<std::string> leaves;  // carried_leaf of each: a step allocates nothing
  int steps = -1;                   // of kStepsRead
};

class CarriedRows {
 public:
  // `in_place`: what is taken is where the next step starts at once, for steps that are never dropped.
  enum class Kept : uint8_t { until_commit, in_place };
  // Zeros.
  CarriedRows(std::shared_ptr<const CarriedLayout> layout, int64_t rows, Kept kept = Kept::until_commit);
  CarriedRows(const std::vector<CarriedSpec>& specs, int64_t rows, Kept kept = Kept::until_commit)
      : CarriedRows(std::make_shared<CarriedLayout>(specs), rows, kept) {}

  const std::vector<CarriedSpec>& specs() const { return layout_->specs; }
  Type type(size_t i) const;                                                              // [rows, ...]
  std::span<std::byte> now(size_t i) const { return {now_[i].data(), now_[i].bytes()}; }  // of specs()[i]
  // The most steps that a row has read; 0 where none are counted. Error(usage) where it is a number that no session reaches: states may come
  // from outside.
  int64_t steps_read() const;
  // The values taken since the last commit; a ring has none.
  std::span<std::byte> next(size_t i) const { return {next_[i].data(), next_[i].bytes()}; }
  size_t row_bytes(size_t i) const { return now_[i].bytes() / static_cast<size_t>(rows_); }
  int64_t rows() const { return rows_; }
  void clear();
  void clear(int64_t first, int64_t count);      // of these rows, where the next step starts
  void bind(PlanRun& run, int64_t first) const;  // inputs of a plan that begins with row `first`
  void take(const PlanRun& run, int64_t first);  // its outputs, after it ran; a slot of a ring is where it belongs at once
  // The next step starts from the values taken: of all rows, or of these.
  void commit();
  void commit(int64_t first, int64_t count);
  // Row i becomes a copy of row parents[i]; one for each row.
  void reorder(std::span<const int> parents);

 private:
  int64_t* steps() const;  // of each row
  void take_slots(const View& from, size_t i, int64_t first);

  std::shared_ptr<const CarriedLayout> layout_;
  int64_t rows_;
  bool in_place_;
  std::vector<Storage> now_, next_;  // next_ of a ring has room only once rows change places
};

}  // namespace perigee
