#include "src/train/host/cut_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/tensor/bytes.h"

namespace perigee {

std::unique_ptr<CutRows> CutRows::of(const TrainingSetup& training) {
  std::vector<int64_t> sizes = plan_steps(*training.model);
  if (sizes.empty()) return nullptr;
  auto cut = std::make_unique<CutRows>();
  cut->timed_ = *timed_fields(training.model->spec());
  cut->sizes_ = std::move(sizes);
  const std::vector<NetworkInput> names = fields_of(training.model->spec(), true);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto source = static_cast<size_t>(training.read_fields[i]);
    const auto& given = training.source->fields()[source];
    Field field{.source = source, .timed = cut->timed_.has(names[i].name), .rows = 1, .step_bytes = byte_size(given)};
    if (field.timed) {
      field.rows = given.shape.elements() / cut->timed_.steps;
      field.step_bytes = dtype_bytes(given.dtype);
    }
    if (names[i].name == cut->timed_.ends) cut->ends_ = source;
    if (names[i].name == training.model->spec().target.name) cut->target_ = i;
    cut->fields_.push_back(field);
  }
  return cut;
}

void CutRows::divide(const std::vector<std::unique_ptr<ThreadSlice>>& slices) {
  places_.clear();
  shares_.resize(slices.size());
  for (size_t rank = 0; rank < slices.size(); ++rank) {
    const auto most = static_cast<size_t>(slices[rank]->begin < slices[rank]->end ? slices[rank]->full_size : 0);
    shares_[rank].ids.resize(most);
    shares_[rank].fields.clear();
    for (const Field& field : fields_) {
      const int64_t steps = field.timed ? timed_.steps : 1;
      shares_[rank].fields.emplace_back(std::max<size_t>(most * static_cast<size_t>(field.rows * steps) * field.step_bytes, 1));
    }
  }
  // The first sub-batches of all slices get the shortest examples; every other turn goes backwards, so that no slice has the longer of each.
  bool more = true;
  for (int64_t turn = 0; more; ++turn) {
    more = false;
    for (size_t i = 0; i < slices.size(); ++i) {
      const ThreadSlice& slice = *slices[turn % 2 == 0 ? i : slices.size() - 1 - i];
      const int64_t begin = slice.begin + turn * slice.full_size;
      for (int64_t place = begin; place < std::min(begin + slice.full_size, slice.end); ++place) places_.push_back(place);
      more |= begin + slice.full_size < slice.end;
    }
  }
  const size_t examples = places_.size();
  lengths_.resize(examples), sorted_.resize(examples), row_at_.resize(examples);
}

int64_t CutRows::length(const Batch& batch, int64_t row) const {
  return steps_there(timed_.role, batch.fields[ends_].view(), row, timed_.steps);
}

void CutRows::arrange(const Batch& batch) {
  for (size_t row = 0; row < lengths_.size(); ++row) lengths_[row] = length(batch, static_cast<int64_t>(row));
  std::iota(sorted_.begin(), sorted_.end(), 0);
  std::sort(sorted_.begin(), sorted_.end(), [&](int64_t a, int64_t b) {
    const int64_t x = lengths_[static_cast<size_t>(a)], y = lengths_[static_cast<size_t>(b)];
    return x != y ? x < y : a < b;
  });
  for (size_t i = 0; i < places_.size(); ++i) row_at_[static_cast<size_t>(places_[i])] = sorted_[i];
}

size_t CutRows::size_for(int64_t steps) const {
  return static_cast<size_t>(std::lower_bound(sizes_.begin(), sizes_.end(), steps) - sizes_.begin());
}

CutRows::Piece CutRows::gather(size_t rank, const Batch& batch, int64_t row, int64_t n) {
  Share& share = shares_[rank];
  int64_t longest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto from = static_cast<size_t>(row_at_[static_cast<size_t>(row + i)]);
    longest = std::max(longest, lengths_[from]);
    share.ids[static_cast<size_t>(i)] = batch.ids[from];
  }
  const size_t size = size_for(longest);
  for (size_t f = 0; f < fields_.size(); ++f) {
    const Field& field = fields_[f];
    const size_t all = field.step_bytes * static_cast<size_t>(field.timed ? timed_.steps : 1);
    const size_t kept = field.timed ? field.step_bytes * static_cast<size_t>(sizes_[size]) : all;
    const auto* base = static_cast<const std::byte*>(batch.fields[field.source].view().data);
    std::byte* to = share.fields[f].data();
    for (int64_t i = 0; i < n; ++i) {
      const std::byte* from = base + static_cast<size_t>(row_at_[static_cast<size_t>(row + i)] * field.rows) * all;
      for (int64_t r = 0; r < field.rows; ++r, from += all, to += kept) std::memcpy(to, from, kept);
    }
  }
  return {size, share.ids.data(), share.fields};
}

std::vector<int64_t> CutRows::sorted_lengths(const Batch& batch) const {
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < batch.size; ++row) lengths.push_back(length(batch, row));
  std::sort(lengths.begin(), lengths.end());
  return lengths;
}

double CutRows::share(std::span<const int64_t> lengths, int64_t size) const {
  int64_t computed = 0, all = 0;
  for (size_t begin = 0; begin < lengths.size(); begin += static_cast<size_t>(size)) {
    const size_t end = std::min(begin + static_cast<size_t>(size), lengths.size());
    computed += sizes_[size_for(lengths[end - 1])] * static_cast<int64_t>(end - begin);
    all += timed_.steps * static_cast<int64_t>(end - begin);
  }
  return all == 0 ? 1 : static_cast<double>(computed) / static_cast<double>(all);
}

size_t CutRows::bytes() const {
  size_t sum = 0;
  for (const Share& share : shares_)
    for (const Storage& field : share.fields) sum += field.bytes();
  return sum;
}

}  // namespace perigee
