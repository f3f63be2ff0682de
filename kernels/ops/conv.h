// Two-dimensional convolution (cross-correlation, as in all of the field) and its adjoints; 1-D is H = 1, depthwise is groups = C.
// N examples, C input channels, H,W input size, O output channels, G groups, kh,kw kernel size, OH,OW output size:
//   OH = (H + top + bottom - dilation_h * (kh - 1) - 1) / stride_h + 1, rounded down; the same for OW.
//   y[n,o,i,j] = b[o] + sum over c,p,q of x[n, c, i*stride_h - top + p*dilation_h, j*stride_w - left + q*dilation_w] * w[o,c,p,q]
//
// conv2d:             in x[N,C,H,W], w[O,C/G,kh,kw], b[O] (optional); out y[N,O,OH,OW], after relu where `relu` is set
// conv2d_grad_input:  in dy[N,O,OH,OW], w;                            out dx[N,C,H,W]   (also transposed convolution)
// conv2d_grad_weight: in dy[N,O,OH,OW], x;                            out dw[O,C/G,kh,kw], a sum over N
//
// conv2d_pool is convolution, bias, relu (where set) and max-pooling over windows that do not overlap (stride = size, no padding; rows
// and columns that fill no window are dropped), so that nothing of the convolution's own size is ever written. PH,PW pooled size:
//   in x, w, b (optional); out y[N,O,PH,PW], argmax[N,O,PH,PW] u8: row-major position of the (first) maximum inside its window
// conv2d_pool_grad_input:  in dy[N,O,PH,PW], y, argmax, w; out dx[N,C,H,W]
// conv2d_pool_grad_weight: in dy, y, argmax, x;            out dw[O,C/G,kh,kw] and, where there is a bias, db[O], sums over N
// With relu set, gradients flow only where y > 0.
#pragma once

#include <cstdint>

namespace perigee {

struct ConvParams {
  int32_t stride[2] = {1, 1};
  int32_t padding[4] = {0, 0, 0, 0};  // top, bottom, left, right
  int32_t dilation[2] = {1, 1};
  int32_t groups = 1;
  int32_t relu = 0;
  int32_t pool[2] = {1, 1};  // conv2d_pool and its gradients only
};

}  // namespace perigee
