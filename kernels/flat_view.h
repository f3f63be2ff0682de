// A run of elements of the parameter block, or of what is laid out like it, as a kernel's operand of rank 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/view.h"

namespace perigee {

// Kernels take inputs and outputs by the same type; an input is only read.
inline View flat_view(const std::byte* data, int64_t elements, Dtype dtype) {
  View view;
  view.data = const_cast<std::byte*>(data);
  view.dtype = dtype;
  view.rank = 1;
  view.dims[0] = elements;
  view.strides[0] = 1;
  return view;
}

}  // namespace perigee
