#pragma once

#include <cstddef>

#include "kernels/view.h"

namespace perigee {

// Bytes of the elements of anything with a dtype and a shape: a Type, or a Field, which is one example.
template <class Typed>
size_t byte_size(const Typed& typed) {
  return static_cast<size_t>(typed.shape.elements()) * dtype_bytes(typed.dtype);
}

}  // namespace perigee
