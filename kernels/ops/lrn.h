// Local response normalisation across channels of N,C,H,W images (or N,C,...). Krizhevsky et al. 2012.
//   d[n,c,...] = k + alpha * sum of x[n,j,...]^2 over |j - c| windows of `size` channels around c (size / 2 before, the rest after)
// lrn:      in 0 x;              out 0 y = x d^-beta
// lrn_grad: in 0 dy  in 1 x;     out 0 dx = dy d^-beta - 2 alpha beta x * sum of dy_j x_j d_j^(-beta-1) over the j whose window has c
// alpha is not divided by the size (PyTorch divides).
#pragma once

#include <cstdint>

namespace perigee {

struct LrnParams {
  int64_t size = 5;
  double k = 2, alpha = 1e-4, beta = 0.75;
};

}  // namespace perigee
