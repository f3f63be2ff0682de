// Storage owns bytes; Tensor is a cheap handle on a strided window of them. Host memory only until a device needs more.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "src/tensor/shape.h"

namespace perigee {

// Move-only owner of 64-byte aligned bytes. Error(resources) when there is no memory.
class Storage {
 public:
  explicit Storage(size_t bytes);
  // A window on bytes of any alignment that another object owns and keeps alive.
  static Storage borrow(std::byte* data, size_t bytes);
  Storage(Storage&& other) noexcept;
  Storage& operator=(Storage&& other) noexcept;
  ~Storage();
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Storage() = default;

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  bool owned_ = true;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(Dtype dtype, Shape shape);  // zero-filled, contiguous
  // A window on `storage`; asserts that it lies inside.
  Tensor(std::shared_ptr<Storage> storage, size_t offset_bytes, Dtype dtype, Shape shape);
  template <class T>
  static Tensor from(const Shape& shape, const std::vector<T>& values);

  bool defined() const { return storage_ != nullptr; }
  Dtype dtype() const { return view_.dtype; }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return shape_.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * dtype_bytes(dtype()); }
  const View& view() const { return view_; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  template <class T>
  T* data() const {
    return static_cast<T*>(view_.data);
  }

  Tensor clone() const;
  Tensor reshape(const Shape& shape) const;       // shares storage; contiguous tensors only
  Tensor rows(int64_t begin, int64_t end) const;  // shares storage; along dimension 0
  Tensor to(Dtype dtype) const;                   // converted copy (or the same handle when equal)

 private:
  std::shared_ptr<Storage> storage_;
  Shape shape_;
  View view_;
};

template <class T>
constexpr Dtype dtype_of();
template <>
constexpr Dtype dtype_of<float>() {
  return Dtype::f32;
}
template <>
constexpr Dtype dtype_of<double>() {
  return Dtype::f64;
}
template <>
constexpr Dtype dtype_of<int32_t>() {
  return Dtype::i32;
}
template <>
constexpr Dtype dtype_of<int64_t>() {
  return Dtype::i64;
}
template <>
constexpr Dtype dtype_of<uint8_t>() {
  return Dtype::u8;
}

template <class T>
Tensor Tensor::from(const Shape& shape, const std::vector<T>& values) {
  Tensor t(dtype_of<T>(), shape);
  for (size_t i = 0; i < values.size() && i < static_cast<size_t>(t.elements()); ++i) t.data<T>()[i] = values[i];
  return t;
}

// Copies element by element between views of one shape and dtype, whatever their strides.
void copy_view(const View& from, const View& to);

}  // namespace perigee
