// Pooling over windows kernel[0] x kernel[1] of N,C,H,W images; padding never wins a maximum and adds nothing to a sum.
// pool2d:      in x[N,C,H,W]; out y[N,C,OH,OW] and, for max, argmax[N,C,OH,OW] (u8, or i32 when a window has more than 256 elements):
//              row-major position of the (first) maximum inside its window
// pool2d_grad: in dy[N,C,OH,OW] and  max: argmax  |  average, sum: nothing  |  pnorm: x, y;  out dx[N,C,H,W]
// average divides by the window's size, or, without count_include_pad, by how many of its elements lie inside the image.
// pnorm is (sum of |x|^p)^(1/p).
#pragma once

#include <cstdint>

namespace perigee {

enum class PoolKind : int32_t { max, average, sum, pnorm };

struct PoolParams {
  PoolKind kind = PoolKind::max;
  int32_t kernel[2] = {1, 1};
  int32_t stride[2] = {1, 1};
  int32_t padding[4] = {0, 0, 0, 0};  // top, bottom, left, right
  int32_t dilation[2] = {1, 1};
  int32_t count_include_pad = 1;
  double p = 2;
};

}  // namespace perigee
