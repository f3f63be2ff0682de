#include "src/model/steps/carried_rows.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "src/tensor/bytes.h"

namespace perigee {

CarriedRows::CarriedRows(const std::vector<CarriedSpec>& specs, int64_t rows, Kept kept)
    : specs_(specs), rows_(rows), in_place_(kept == Kept::in_place) {
  for (const CarriedSpec& spec : specs_) {
    const size_t bytes = byte_size(spec.row) * static_cast<size_t>(rows);
    leaves_.push_back(carried_leaf(spec.name));
    now_.emplace_back(bytes);
    if (!in_place_) next_.emplace_back(bytes);
  }
  clear();
}

Type CarriedRows::type(size_t i) const {
  std::vector<int64_t> dims = specs_[i].row.shape.vector();
  dims.insert(dims.begin(), rows_);
  return {specs_[i].row.dtype, Shape(dims)};
}

void CarriedRows::clear() {
  for (auto* storage : {&now_, &next_})
    for (const Storage& each : *storage) std::memset(each.data(), 0, each.bytes());
}

void CarriedRows::bind(PlanRun& run, int64_t first) const {
  for (size_t i = 0; i < specs_.size(); ++i)
    if (const int input = run.plan().input_index(leaves_[i]); input >= 0)
      run.set_input(input, now_[i].data() + static_cast<size_t>(first) * byte_size(specs_[i].row));
}

void CarriedRows::take(const PlanRun& run, int64_t first) {
  for (size_t i = 0; i < specs_.size(); ++i) {
    const int output = run.output_index(leaves_[i]);
    if (output < 0) continue;
    const View& from = run.output(output);
    assert(first + from.dims[0] <= rows_);
    View to = from;
    to.data = (in_place_ ? now_ : next_)[i].data() + static_cast<size_t>(first) * byte_size(specs_[i].row);
    int64_t stride = 1;
    for (int d = to.rank - 1; d >= 0; --d) {
      to.strides[d] = stride;
      stride *= to.dims[d];
    }
    copy_view(from, to);
  }
}

void CarriedRows::commit() {
  if (!in_place_) now_.swap(next_);
}

void CarriedRows::reorder(std::span<const int> parents) {
  assert(parents.size() == static_cast<size_t>(rows_) && !in_place_);
  for (size_t i = 0; i < specs_.size(); ++i) {
    const size_t bytes = byte_size(specs_[i].row);
    for (size_t row = 0; row < parents.size(); ++row)
      std::memcpy(next_[i].data() + row * bytes, now_[i].data() + static_cast<size_t>(parents[row]) * bytes, bytes);
  }
  commit();
}

}  // namespace perigee
