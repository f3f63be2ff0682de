#include "src/model/steps/cut_fields.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/tensor/bytes.h"

namespace perigee {

std::unique_ptr<CutFields> CutFields::of(const Model& model, bool with_loss) {
  std::vector<int64_t> sizes = plan_steps(model);
  if (sizes.empty()) return nullptr;
  auto cut = std::make_unique<CutFields>();
  cut->timed_ = *timed_fields(model.spec());
  cut->sizes_ = std::move(sizes);
  for (const NetworkInput& each : fields_of(model.spec(), with_loss)) {
    Field field{.timed = cut->timed_.has(each.name), .rows = 1, .step_bytes = byte_size(each.type)};
    if (field.timed) field.rows = each.type.shape.elements() / cut->timed_.steps, field.step_bytes = dtype_bytes(each.type.dtype);
    if (each.name == cut->timed_.ends) cut->ends_ = cut->fields_.size(), cut->ends_dtype_ = each.type.dtype;
    cut->fields_.push_back(field);
  }
  return cut;
}

void CutFields::order(std::span<const std::byte* const> fields, int64_t count) {
  const View ends{.data = const_cast<std::byte*>(fields[ends_]), .dtype = ends_dtype_};
  lengths_.resize(static_cast<size_t>(count)), rows_.resize(static_cast<size_t>(count));
  for (int64_t row = 0; row < count; ++row) lengths_[static_cast<size_t>(row)] = steps_there(timed_.role, ends, row, timed_.steps);
  std::iota(rows_.begin(), rows_.end(), int64_t{0});
  std::stable_sort(rows_.begin(), rows_.end(),
                   [&](int64_t a, int64_t b) { return lengths_[static_cast<size_t>(a)] > lengths_[static_cast<size_t>(b)]; });
}

void CutFields::gather(std::span<const std::byte* const> fields, int64_t begin, int64_t end, Piece* piece) const {
  const int64_t longest = lengths_[static_cast<size_t>(rows_[static_cast<size_t>(begin)])];
  const int64_t steps = *std::lower_bound(sizes_.begin(), sizes_.end() - 1, longest);
  piece->steps = steps == timed_.steps ? 0 : steps;
  piece->fields.resize(fields_.size());
  for (size_t f = 0; f < fields_.size(); ++f) {
    const Field& field = fields_[f];
    const size_t all = field.step_bytes * static_cast<size_t>(field.timed ? timed_.steps : 1);
    const size_t kept = field.step_bytes * static_cast<size_t>(field.timed ? steps : 1);
    piece->fields[f].resize(std::max<size_t>(1, static_cast<size_t>((end - begin) * field.rows) * kept));
    std::byte* to = piece->fields[f].data();
    for (int64_t place = begin; place < end; ++place) {
      const std::byte* from = fields[f] + static_cast<size_t>(rows_[static_cast<size_t>(place)] * field.rows) * all;
      for (int64_t r = 0; r < field.rows; ++r, from += all, to += kept) std::memcpy(to, from, kept);
    }
  }
}

}  // namespace perigee
