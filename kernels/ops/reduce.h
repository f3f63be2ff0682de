// reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod: in[0] -> out[0], which lacks the reduced dimensions or has them
// with size 1. arg_max, arg_min: the same with one axis and i64 results, the first index of a tie; NaN wins.
// cumulative_sum: out[0] has the shape of in[0].
#pragma once

#include <cstdint>

namespace perigee {

struct ReduceParams {
  uint32_t axes;  // bit i: dimension i of in[0] is reduced
  bool keep;      // reduced dimensions stay, with size 1
};

struct CumulativeParams {
  int32_t axis;
  bool exclusive;  // element i sums those before i
  bool reverse;    // from the end
};

}  // namespace perigee
