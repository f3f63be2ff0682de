#include "src/data/array_source.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/convert.h"

namespace perigee {
namespace {

// Simple enough for the compiler to vectorise on every x86-64.
void scale_bytes(const uint8_t* __restrict from, float scale, float* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * scale;
}

}  // namespace

ArraySource::ArraySource(std::string description, int64_t size, std::vector<Column> columns,
                         std::vector<std::shared_ptr<const void>> owners, Json fitted, Json remarks)
    : description_(std::move(description)),
      size_(size),
      columns_(std::move(columns)),
      owners_(std::move(owners)),
      fitted_(std::move(fitted)),
      remarks_(std::move(remarks)) {
  for (auto& column : columns_) {
    fields_.push_back(column.field);
    elements_.push_back(column.field.shape.elements());
    if (column.stride == 0) column.stride = elements_.back() * static_cast<int64_t>(dtype_bytes(column.stored));
  }
}

void ArraySource::read(const ReadKey& key, std::span<std::byte* const> slots) const {
  assert(key.index >= 0 && key.index < size_ && slots.size() == columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    const std::byte* from = column.data + key.index * column.stride;
    const int64_t n = elements_[i];
    if (column.stored == column.field.dtype) {
      std::memcpy(slots[i], from, static_cast<size_t>(n) * dtype_bytes(column.stored));
    } else if (column.stored == Dtype::u8 && column.field.dtype == Dtype::f32) {
      scale_bytes(reinterpret_cast<const uint8_t*>(from), column.scale, reinterpret_cast<float*>(slots[i]), n);
    } else {
      convert(column.stored, from, column.field.dtype, slots[i], n);
    }
  }
}

void ArraySource::expect(std::span<const ReadKey> keys) const {
  constexpr int64_t kMost = 4096;  // bytes of a record: what follows, the machine's own prefetching finds
  for (const ReadKey& key : keys)
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::byte* from = columns_[i].data + key.index * columns_[i].stride;
      const int64_t bytes = std::min(elements_[i] * static_cast<int64_t>(dtype_bytes(columns_[i].stored)), kMost);
      for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at);
    }
}

SourceTraits ArraySource::traits() const {
  return {.description = description_, .fitted = fitted_, .cheap = true, .fixed = true, .touches = true, .remarks = remarks_};
}

void check_labels(const Column& column, int64_t size, const std::string& where) {
  assert(column.field.shape.elements() == 1);
  const int64_t stride = column.stride != 0 ? column.stride : static_cast<int64_t>(dtype_bytes(column.stored));
  for (int64_t i = 0; i < size; ++i) {
    int64_t label = 0;
    if (column.stored == Dtype::u8) label = std::to_integer<int64_t>(column.data[i * stride]);
    else convert(column.stored, column.data + i * stride, Dtype::i64, &label, 1);
    if (label < 0 || label >= column.field.classes)
      throw Error(ErrorKind::data, {.where = where,
                                    .what = "the label of record " + std::to_string(i) + " is out of range",
                                    .got = std::to_string(label),
                                    .expected = "0 to " + std::to_string(column.field.classes - 1)});
  }
}

}  // namespace perigee
