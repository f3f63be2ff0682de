// matmul: c = op(a) op(b) over the last two dimensions; the dimensions before them are batch dimensions and broadcast.
//   in 0   a [..., M, K], or [..., K, M] when transpose_a
//   in 1   b [..., K, N], or [..., N, K] when transpose_b
//   out 0  c [..., M, N]
#pragma once

namespace perigee {

struct MatmulParams {
  bool transpose_a = false;
  bool transpose_b = false;
};

}  // namespace perigee
