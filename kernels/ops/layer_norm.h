// Layer normalisation over the last dimension: R rows (all dimensions before it) of K elements. Ba, Kiros and Hinton 2016.
//
// Without `centre` it is root mean square normalisation (Zhang and Sennrich 2019): the mean is taken to be 0.
//
// layer_norm:             in 0 x[...,K]  in 1 gamma[K], optional: 1  in 2 beta[K], optional: 0
//                         out 0 y[...,K] = gamma (x - mean) inverse + beta
//                         out 1 mean[...]  out 2 inverse[...] = 1 / sqrt(variance + epsilon), variance divided by K
// layer_norm_grad:        in 0 dy  in 1 x  in 2 gamma, optional  in 3 mean  in 4 inverse;  out 0 dx
// layer_norm_grad_params: in 0 dy  in 1 x  in 2 mean  in 3 inverse;  out 0 dgamma[K]  out 1 dbeta[K], sums over rows
#pragma once

namespace perigee {

struct LayerNormParams {
  double epsilon = 1e-5;
  bool centre = true;
};

}  // namespace perigee
