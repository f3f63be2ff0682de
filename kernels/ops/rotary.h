// rotary: in 0 x [N,T,H,d]  in 1 before [N] of i64, optional: as much is added to the offset of each example
// out 0 y of the shape of x, in which step t's pairs of features are rotated by angles that grow with t.
// Pair i of `width` features turns by (t + offset) theta^(-2 i / width): (a, b) becomes (a cos - b sin, a sin + b cos).
// Su et al., "RoFormer", 2021.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace perigee {

struct RotaryParams {
  double theta = 10000;
  int64_t width = 0;         // of each head the first so many features turn, an even number; the others are copied
  int64_t heads = 0;         // the first so many heads turn; the others are copied
  int64_t offset = 0;        // position of the first step
  bool interleaved = false;  // pairs are (2 i, 2 i + 1), else (i, i + width / 2)
  bool inverse = false;      // turns back: the gradient
};

// The position of step 0 of an example.
constexpr int64_t first_position(const KernelCall& call, const RotaryParams& p, int64_t n) {
  return p.offset + (call.n_in > 1 && call.in[1].data != nullptr ? call.in[1].as<int64_t>()[n * call.in[1].strides[0]] : 0);
}

constexpr int64_t first_of_pair(const RotaryParams& p, int64_t i) { return p.interleaved ? 2 * i : i; }
constexpr int64_t second_of_pair(const RotaryParams& p, int64_t i) { return p.interleaved ? 2 * i + 1 : i + p.width / 2; }

}  // namespace perigee
