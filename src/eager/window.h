// Windows on arrays: what `t[{ {1,3}, 2 }]` looks at, without copying. Places count from 1 and from the end with -1, ranges include both ends,
// as in Lua.
#pragma once

#include <cstdint>
#include <span>

#include "src/eager/array.h"

namespace perigee {

// One entry of an index. Plain data: lua/perigee/tensor.lua writes it.
struct WindowIndex {
  enum Kind : int64_t {
    at,       // one place; the dimension goes
    range,    // start to stop, both included, by step; a negative step runs backwards
    whole,    // the dimension as it is
    new_axis  // a dimension of size 1, that the array does not have
  };
  int64_t kind = whole;
  int64_t start = 1, stop = -1, step = 1;
};

// A place that counts from 1, or from the end with -1, as one that counts from 0. Error(model) when it lies more than `slack` beyond an end.
int64_t place_from_zero(int64_t place, int64_t size, int64_t slack, int dim, const Array& x);

// Dimensions beyond the list stay whole. Error(model) for a place outside, too many entries, step 0. A range that holds nothing (stop
// before start, in its direction) gives size 0; its ends must lie within the dimension, but for one place beyond.
Array window(const Array& x, std::span<const WindowIndex> indices);

// Elements along `axis` at the places that `indices` (i64, from 1) name.
Array take(const Array& x, int axis, const Array& indices);
// The elements of each line along `axis` at the places (i64, from 1) that `places`, of x's dims but along the axis, has for it.
Array take_along(const Array& x, int axis, const Array& places);
// The places, from 1, of the elements of `mask` that are not 0, in row-major order: i64 [count, rank].
Array nonzero(const Array& mask);
// The elements of x where `mask`, which has the dims of x or of its first dimensions, is not 0; [count, rest...].
Array masked_select(const Array& x, const Array& mask);
// x where `mask` is not 0 becomes `value`, which broadcasts to what masked_select gives.
void masked_assign(const Array& x, const Array& mask, const Array& value);

}  // namespace perigee
