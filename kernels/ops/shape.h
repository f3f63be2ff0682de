// concatenate: in[0..n-1] -> out[0], equal but for one dimension, along which they follow each other.
// pad: in[0] x -> out[0]; element i of dimension d lies at before[d] + i * (interior[d] + 1), all else is `value`.
#pragma once

#include <cstdint>

#include "kernels/view.h"

namespace perigee {

struct ConcatenateParams {
  int32_t axis;
};

struct PadParams {
  int64_t before[kMaxRank];
  int64_t interior[kMaxRank];
  double value;
};

}  // namespace perigee
