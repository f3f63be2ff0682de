// The examples of a batch in the order in which their slices compute them: by length, so that a sub-batch ends with its longest example and
// what is padding for all of it is not computed. The batch itself, its ledger and its order in the epoch stay as they are.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/model/steps/timed_fields.h"
#include "src/train/host/thread_slice.h"
#include "src/train/training_setup.h"

namespace perigee {

class CutRows {
 public:
  // Null where plans of fewer steps do not fit the model.
  static std::unique_ptr<CutRows> of(const TrainingSetup& training);

  std::span<const int64_t> sizes() const { return sizes_; }                       // steps of plans, ascending, all last
  int64_t key(int64_t steps) const { return steps == timed_.steps ? 0 : steps; }  // as ShapeKey has it
  size_t target() const { return target_; }                                       // the main target's place among fields_of()

  // How the slices divide the batches to come, and memory for their sub-batches.
  void divide(const std::vector<std::unique_ptr<ThreadSlice>>& slices);
  // Before the slices compute `batch`.
  void arrange(const Batch& batch);

  struct Piece {
    size_t size = 0;  // index among sizes()
    const int64_t* ids = nullptr;
    std::span<const Storage> fields;  // by fields_of(), each as long as its plan has it
  };
  // Copies of the `n` examples at the places from `row` on; valid until the slice's next. Each thread for its own slice.
  Piece gather(size_t rank, const Batch& batch, int64_t row, int64_t n);

  // The share of all steps that sub-batches of `size` examples compute when `lengths` (sorted) are those of a slice.
  double share(std::span<const int64_t> lengths, int64_t size) const;
  std::vector<int64_t> sorted_lengths(const Batch& batch) const;
  size_t bytes() const;

 private:
  struct Field {
    size_t source = 0;  // among the batch's
    bool timed = false;
    int64_t rows = 1;       // of `steps` steps, in an example; of a field that is not timed, 1 row
    size_t step_bytes = 0;  // of a step; of a field that is not timed, of the example
  };
  struct Share {
    std::vector<Storage> fields;
    std::vector<int64_t> ids;
  };
  int64_t length(const Batch& batch, int64_t row) const;
  size_t size_for(int64_t steps) const;

  TimedFields timed_;
  std::vector<int64_t> sizes_;
  std::vector<Field> fields_;
  size_t ends_ = 0, target_ = 0;
  std::vector<Share> shares_;              // by thread
  std::vector<int64_t> places_;            // of the slices' rows, in the order in which they are filled
  std::vector<int64_t> lengths_, sorted_;  // by row; rows by length
  std::vector<int64_t> row_at_;            // place -> row of the batch
};

}  // namespace perigee
