// random_uniform, random_normal: out[0] (f32, f64) of the shape of in[0], whose values are not read.
// Draws come from Philox4x32-10 (kernels/philox.h), key (seed, stream). With per_example, row i of dimension 0 is the example
// step->example_ids[i], counter (epoch, example, element); else counter (step, element), the same on every slice of a batch.
// `element` counts row-major in logical order (inside the example); element e is lane e % 4 of block e / 4.
// Normal draws are pairs of Box and Muller's (lanes 0,1 and 2,3): sqrt(-2 ln(1 - u0)) * cos(2 pi u1), and sin for the odd lane.
#pragma once

#include <cstdint>

namespace perigee {

struct RandomParams {
  uint64_t stream;
  double offset;  // low, or the mean
  double scale;   // high - low, or the standard deviation
  bool per_example;
};

}  // namespace perigee
