#include "src/model/steps/carried_rows.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "src/tensor/bytes.h"

namespace perigee {
void copy_packed(const View& from, std::byte* to) {
  View packed = from;
  packed.data = to;
  int64_t stride = 1;
  for (int d = packed.rank - 1; d >= 0; --d) {
    packed.strides[d] = stride;
    stride *= packed.dims[d];
  }
  copy_view(from, packed);
}

CarriedLayout::CarriedLayout(std::vector<CarriedSpec> of) : specs(std::move(of)) {
  for (const CarriedSpec& spec : specs) {
    if (spec.name == kStepsRead) steps = static_cast<int>(leaves.size());
    leaves.push_back(carried_leaf(spec.name));
  }
}

CarriedRows::CarriedRows(std::shared_ptr<const CarriedLayout> layout, int64_t rows, Kept kept)
    : layout_(std::move(layout)), rows_(rows), in_place_(kept == Kept::in_place) {
  for (size_t i = 0; i < specs().size(); ++i) {
    const size_t bytes = byte_size(type(i));  // throws where it overflows
    now_.emplace_back(bytes);
    if (!in_place_) next_.emplace_back(specs()[i].slots > 0 ? 0 : bytes);
  }
  clear();
}

Type CarriedRows::type(size_t i) const {
  std::vector<int64_t> dims = specs()[i].row.shape.vector();
  dims.insert(dims.begin(), rows_);
  return {specs()[i].row.dtype, Shape(dims)};
}

int64_t* CarriedRows::steps() const { return reinterpret_cast<int64_t*>(now_[static_cast<size_t>(layout_->steps)].data()); }

int64_t CarriedRows::steps_read() const {
  if (layout_->steps < 0) return 0;
  constexpr int64_t kMost = int64_t{1} << 53;
  const auto [least, most] = std::minmax_element(steps(), steps() + rows_);
  if (*least >= 0 && *most <= kMost) return *most;
  throw Error(ErrorKind::usage, {.where = "session",
                                 .what = "the state says that it has read a number of steps that no session reaches",
                                 .got = std::to_string(*least < 0 ? *least : *most),
                                 .expected = "0 to " + std::to_string(kMost)});
}

void CarriedRows::clear() {
  for (auto* storage : {&now_, &next_})
    for (const Storage& each : *storage) std::memset(each.data(), 0, each.bytes());
}

void CarriedRows::clear(int64_t first, int64_t count) {
  assert(first >= 0 && count >= 0 && first + count <= rows_);
  for (size_t i = 0; i < now_.size(); ++i)
    std::memset(now_[i].data() + static_cast<size_t>(first) * row_bytes(i), 0, static_cast<size_t>(count) * row_bytes(i));
}

void CarriedRows::bind(PlanRun& run, int64_t first) const {
  for (size_t i = 0; i < specs().size(); ++i)
    if (const int input = run.plan().input_index(layout_->leaves[i]); input >= 0)
      run.set_input(input, now_[i].data() + static_cast<size_t>(first) * byte_size(specs()[i].row));
}

// Row by row, as each may be at a step of its own.
void CarriedRows::take_slots(const View& from, size_t i, int64_t first) {
  const CarriedSpec& spec = specs()[i];
  const size_t slot = byte_size(spec.row) / static_cast<size_t>(spec.slots);
  View one = from;
  one.dims[0] = 1;
  for (int64_t row = 0; row < from.dims[0]; ++row) {
    one.data = static_cast<std::byte*>(from.data) + row * from.strides[0] * static_cast<int64_t>(dtype_bytes(from.dtype));
    const int64_t place = steps()[first + row] % spec.slots;
    copy_packed(one, now_[i].data() + static_cast<size_t>(first + row) * byte_size(spec.row) + static_cast<size_t>(place) * slot);
  }
}

void CarriedRows::take(const PlanRun& run, int64_t first) {
  for (const bool rings : {true, false})  // first, while the steps are still those before
    for (size_t i = 0; i < specs().size(); ++i) {
      if ((specs()[i].slots > 0) != rings) continue;
      const int output = run.output_index(layout_->leaves[i]);
      if (output < 0) continue;
      const View& from = run.output(output);
      assert(first + from.dims[0] <= rows_);
      if (rings) {
        take_slots(from, i, first);
        continue;
      }
      copy_packed(from, (in_place_ ? now_ : next_)[i].data() + static_cast<size_t>(first) * byte_size(specs()[i].row));
    }
}

void CarriedRows::commit() {
  if (in_place_) return;
  for (size_t i = 0; i < specs().size(); ++i)
    if (specs()[i].slots == 0) std::swap(now_[i], next_[i]);
}

void CarriedRows::commit(int64_t first, int64_t count) {
  if (in_place_) return;
  if (count == rows_) return commit();
  for (size_t i = 0; i < specs().size(); ++i) {
    const size_t at = static_cast<size_t>(first) * row_bytes(i);
    if (specs()[i].slots == 0) std::memcpy(now_[i].data() + at, next_[i].data() + at, static_cast<size_t>(count) * row_bytes(i));
  }
}

void CarriedRows::reorder(std::span<const int> parents) {
  assert(parents.size() == static_cast<size_t>(rows_) && !in_place_);
  for (size_t i = 0; i < specs().size(); ++i) {
    const size_t bytes = byte_size(specs()[i].row);
    if (next_[i].bytes() < now_[i].bytes()) next_[i] = Storage(now_[i].bytes());
    for (size_t row = 0; row < parents.size(); ++row)
      std::memcpy(next_[i].data() + row * bytes, now_[i].data() + static_cast<size_t>(parents[row]) * bytes, bytes);
  }
  now_.swap(next_);
}

}  // namespace perigee
