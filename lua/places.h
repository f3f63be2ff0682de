// Places as Lua counts them, from 1 and from the end with -1, ranges with both ends included, for the library, which counts from 0.
#pragma once

#include <span>

#include "src/eager/window.h"

namespace perigee {

// One entry of an index: lua/perigee/tensor.lua writes it. `kind` is a WindowIndex::Kind.
struct LuaIndex {
  int64_t kind, start, stop, step;
};

inline constexpr int kMostLuaIndices = 16;

// Resolves entries of an index of x into `room`. Error(model) for a place outside and for step 0. A range that holds nothing (stop before
// start, in its direction) gives size 0; its ends must lie within the dimension, but for one place beyond.
std::span<const WindowIndex> from_lua(const Array& x, std::span<const LuaIndex> entries, std::span<WindowIndex> room);

// Places along `axis` of x as i64 from 0. What take() would refuse for its dtype or axis stays as it is.
Array places_from_lua(const Array& x, int axis, const Array& places);

// i64 places from 1, in place.
Array places_to_lua(Array places);

}  // namespace perigee
