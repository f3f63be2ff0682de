// Windows on arrays: parts of them that are looked at without copying; and elements chosen by places or masks. Places count from 0; what a
// front-end lets its users write, it resolves itself.
#pragma once

#include <cstdint>
#include <span>

#include "src/eager/array.h"

namespace perigee {

// One entry of an index.
struct WindowIndex {
  enum Kind : uint8_t {
    at,       // the place `first`; the dimension goes
    range,    // `count` places from `first`, by `step`, which may be negative
    whole,    // the dimension as it is
    new_axis  // a dimension of size 1, that the array does not have
  };
  Kind kind = whole;
  int64_t first = 0, count = 0, step = 1;
};

// Dimensions beyond the list stay whole. Error(model) for a place outside and for too many entries.
Array window(const Array& x, std::span<const WindowIndex> indices);

// Elements along `axis` at the places that `indices` (i64; below 0 from the end) name.
Array take(const Array& x, int axis, const Array& indices);
// The elements of each line along `axis` at the places (i64; below 0 from the end) that `places`, of x's dims but along the axis, has for it.
Array take_along(const Array& x, int axis, const Array& places);
// The places of the elements of `mask` that are not 0, in row-major order: i64 [count, rank].
Array nonzero(const Array& mask);
// The elements of x where `mask`, which has the dims of x or of its first dimensions, is not 0; [count, rest...].
Array masked_select(const Array& x, const Array& mask);
// x where `mask` is not 0 becomes `value`, which broadcasts to what masked_select gives.
void masked_assign(const Array& x, const Array& mask, const Array& value);

}  // namespace perigee
