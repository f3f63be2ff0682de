// Examples of a batch by length, and copies of some of them without the steps that are padding for all of these: so a pass forward computes
// sub-batches as long as their longest example. Training has src/train/host/cut_rows.h.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "src/model/steps/timed_fields.h"

namespace perigee {

class CutFields {
 public:
  // For the fields_of() `model`. Null where plans of fewer steps do not fit it.
  static std::unique_ptr<CutFields> of(const Model& model, bool with_loss);

  // Rows of a batch, the longest first; `fields`: contiguous rows of each field.
  void order(std::span<const std::byte* const> fields, int64_t count);
  std::span<const int64_t> rows() const { return rows_; }

  struct Piece {
    int64_t steps = 0;                                // as ShapeKey has it
    std::vector<std::vector<std::byte>> fields = {};  // as long as the plan of so many steps has them
  };
  // Copies of the rows in places [begin, end) of the order. Any thread.
  void gather(std::span<const std::byte* const> fields, int64_t begin, int64_t end, Piece* piece) const;

 private:
  struct Field {
    bool timed = false;
    int64_t rows = 1;       // of all steps, in an example
    size_t step_bytes = 0;  // of a step; of a field that is not timed, of the example
  };
  TimedFields timed_;
  std::vector<int64_t> sizes_;  // steps of plans
  std::vector<Field> fields_;
  size_t ends_ = 0;
  Dtype ends_dtype_ = Dtype::i64;
  std::vector<int64_t> rows_, lengths_;
};

}  // namespace perigee
