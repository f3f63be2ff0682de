// Sorting along an axis.
#pragma once

#include "src/eager/array.h"

namespace perigee {

// Places, from 1, that put each line along `axis` in ascending (or descending) order: stable, NaN last. With `count` at least 0, the first
// `count` of each line only.
Array argsort(const Array& x, int axis, bool descending, int64_t count = -1);
// The elements of each line at the places, from 1, that argsort gives for it.
Array take_along(const Array& x, int axis, const Array& places);

}  // namespace perigee
