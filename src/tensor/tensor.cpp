#include "src/tensor/tensor.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kernels/convert.h"
#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kAlignment = 64;

size_t checked_bytes(Dtype dtype, const Shape& shape) {
  static_assert(kMaxElements <= PTRDIFF_MAX / 8);
  return static_cast<size_t>(shape.elements()) * dtype_bytes(dtype);
}

}  // namespace

Storage::Storage(size_t bytes) : bytes_(bytes) {
  if (bytes > PTRDIFF_MAX - kAlignment) throw Error(ErrorKind::resources, {.what = "not enough memory", .got = "2^63 bytes or more"});
  const size_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (data_ == nullptr)
    throw Error(ErrorKind::resources, {.what = "not enough memory for " + std::to_string(bytes) + " bytes",
                                       .hint = "a smaller batch or a smaller network needs less"});
}

Storage::Storage(Storage&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), owned_(std::exchange(other.owned_, true)) {}

Storage& Storage::operator=(Storage&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(owned_, other.owned_);
  return *this;
}

Storage::~Storage() {
  if (owned_) std::free(data_);
}

Storage Storage::borrow(std::byte* data, size_t bytes) {
  Storage window;
  window.data_ = data;
  window.bytes_ = bytes;
  window.owned_ = false;
  return window;
}

Tensor::Tensor(Dtype dtype, Shape shape) : shape_(shape) {
  const size_t bytes = checked_bytes(dtype, shape);
  storage_ = std::make_shared<Storage>(bytes);
  std::memset(storage_->data(), 0, bytes);
  view_ = contiguous_view(storage_->data(), dtype, shape_);
}

Tensor::Tensor(std::shared_ptr<Storage> storage, size_t offset_bytes, Dtype dtype, Shape shape)
    : storage_(std::move(storage)), shape_(shape) {
  assert(storage_ && offset_bytes <= storage_->bytes() && checked_bytes(dtype, shape_) <= storage_->bytes() - offset_bytes);
  view_ = contiguous_view(storage_->data() + offset_bytes, dtype, shape_);
}

Tensor Tensor::clone() const {
  if (!defined()) return {};
  Tensor copy(dtype(), shape_);
  std::memcpy(copy.view_.data, view_.data, bytes());
  return copy;
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (shape.elements() != shape_.elements())
    throw Error(ErrorKind::model, {.what = "cannot reshape " + shape_.text() + " to " + shape.text(),
                                   .got = std::to_string(shape_.elements()) + " elements",
                                   .expected = std::to_string(shape.elements())});
  Tensor window = *this;
  window.shape_ = shape;
  window.view_ = contiguous_view(view_.data, dtype(), shape);
  return window;
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
  assert(shape_.rank() >= 1 && begin >= 0 && begin <= end && end <= shape_[0]);
  Tensor window = *this;
  window.shape_ = shape_.with(0, end - begin);
  const int64_t offset = begin * view_.strides[0] * static_cast<int64_t>(dtype_bytes(dtype()));
  window.view_ = contiguous_view(static_cast<std::byte*>(view_.data) + offset, dtype(), window.shape_);
  return window;
}

Tensor Tensor::to(Dtype dtype) const {
  if (dtype == this->dtype() || !defined()) return *this;
  Tensor converted(dtype, shape_);
  convert(this->dtype(), view_.data, dtype, converted.view_.data, elements());
  return converted;
}

namespace {

void copy_dim(const View& from, const View& to, int dim, const std::byte* source, std::byte* target) {
  const auto size = static_cast<int64_t>(dtype_bytes(from.dtype));
  if (dim == from.rank) {
    std::memcpy(target, source, static_cast<size_t>(size));
    return;
  }
  for (int64_t i = 0; i < from.dims[dim]; ++i)
    copy_dim(from, to, dim + 1, source + i * from.strides[dim] * size, target + i * to.strides[dim] * size);
}

}  // namespace

void copy_view(const View& from, const View& to) {
  assert(same_shape(from, to) && from.dtype == to.dtype);
  if (from.contiguous() && to.contiguous()) {
    std::memcpy(to.data, from.data, static_cast<size_t>(from.elements()) * dtype_bytes(from.dtype));
    return;
  }
  copy_dim(from, to, 0, from.as<std::byte>(), to.as<std::byte>());
}

}  // namespace perigee
