// Lines run along dimension `axis`.
// arg_sort: in[0] x -> out[0] i64: the places, from 0, that put each line in ascending (or descending) order, as many as out[0] has along axis;
//   stable, NaN last.
// take_along: in[0] x, in[1] places (i64, the dims of x but along axis) -> out[0], like the places: the elements of each line there.
// put_along: in[0] updates, in[1] places of the same dims -> out[0]: zeros, plus each update at its place in its line; the adjoint of take_along.
// A place outside the line takes NaN (0 for integers); put_along passes over it.
#pragma once

#include <cstdint>

namespace perigee {

struct SortParams {
  int32_t axis;
  bool descending;
};

struct AlongParams {
  int32_t axis;
};

}  // namespace perigee
