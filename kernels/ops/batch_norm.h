// Batch normalisation with the statistics of the batch, an optional residual and relu. N examples, C channels in dimension 1, M
// elements of each channel (N times the rest), over all slices of the team. Ioffe and Szegedy 2015.
//
// batch_norm:      in 0 x[N,C,d...]  in 1 gamma[C], optional: 1  in 2 beta[C], optional: 0  in 3 residual[N,C,d...], optional
//                  out 0 y[N,C,d...] = act(gamma (x - mean) / sqrt(variance + epsilon) + beta + residual)
//                  out 1 mean[C]  out 2 variance[C], biased (divided by M)
// batch_norm_grad: in 0 dy  in 1 x  in 2 y, when relu and a residual were there (without one the sign comes from x)
//                  in 3 gamma, optional  in 4 beta, optional  in 5 mean  in 6 variance
//                  out 0 dx  out 1 dgamma[C]  out 2 dbeta[C]  out 3 dresidual[N,C,d...], only when params.residual
//                  dgamma and dbeta are sums over this slice, dx takes the whole team's.
// The statistics are exchanged through call.team; every member must call.
#pragma once

#include <cstdint>

namespace perigee {

struct BatchNormParams {
  double epsilon = 1e-5;
  int32_t relu = 0;
  int32_t residual = 0;
};

}  // namespace perigee
