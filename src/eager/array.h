// The operand of eager ops: a strided window on a Storage. A Tensor is always dense; an Array may be a slice with steps of any sign, a
// transpose, or a broadcast. Copying one copies the handle.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "src/tensor/tensor.h"

namespace perigee {

struct Array {
  std::shared_ptr<Storage> storage;
  View view;

  Array() = default;
  Array(std::shared_ptr<Storage> owner, const View& window) : storage(std::move(owner)), view(window) {}
  Array(const Tensor& tensor) : storage(tensor.storage()), view(tensor.view()) {}

  bool defined() const { return storage != nullptr; }
  Shape shape() const { return Shape(std::vector<int64_t>(view.dims, view.dims + view.rank)); }
  Type type() const { return {view.dtype, shape()}; }
  std::string text() const { return type().text(); }  // "f32[2x3]"
};

// Dense, row-major, with undefined content. `view` gives dtype and dims; its data and strides are not read.
Array new_array(const View& view);
Array new_array(const View& view, Dtype dtype);
Array new_array(const Type& type);
void new_array_at(Array* place, const View& dense);  // makes it where there is no Array yet, like a view that is dense and not large

Array contiguous(const Array& x);         // itself where it is already
Array cast(const Array& x, Dtype dtype);  // itself where it has that dtype
Tensor to_tensor(const Array& x);         // shares the storage where x is contiguous
// Element by element into `to`, which has the shape or one that `from` broadcasts to; converts; the two may overlap.
void copy_into(const Array& from, const Array& to);

// The only element, converted. Error when there are more or none.
double item(const Array& x);

// How numbers are promoted: bool, u8, i32, i64, f32, f64, each to the later one; f16 and bf16 are for storage and become f32.
Dtype promote(Dtype a, Dtype b);
// The dtype of a result when a plain number meets an operand of `dtype`: the number is as narrow as its value allows.
Dtype promote(Dtype dtype, double number);

// Bytes of the storages that were handed to Lua and not yet freed there, and how the collector is told (lua/tensor.cpp).
struct ArrayBytes {
  static void add(const Array& x);
  static void remove(const Array& x);  // before the handle is dropped
  static bool due();                   // so much was allocated that a collection is worth its time
  static void collected();             // sets the next border
};

}  // namespace perigee
