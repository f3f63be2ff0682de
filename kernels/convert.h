// Conversion of flat arrays between element types, for readers of files and for host tensors.
#pragma once

#include <cstdint>

#include "kernels/view.h"

namespace perigee {

// `n` elements; the arrays do not overlap. Floating point to integer truncates toward zero, saturates, and makes NaN 0; anything
// non-zero is true; narrowing of floating point rounds to nearest even.
void convert(Dtype from_type, const void* from, Dtype to_type, void* to, int64_t n);

}  // namespace perigee
