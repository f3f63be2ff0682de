// linear and its gradients: a dense layer. R rows (all leading dimensions of x), K inputs, N outputs. The weight is [N, K], as in PyTorch.
//
// linear              in 0  x [..., K]   in 1  weight [N, K]   in 2  bias [N], optional
//                     out 0 y [..., N] = activation(x weight^T + bias)
// linear_grad_input   in 0  dy [..., N]  in 1  weight [N, K]   in 2  y [..., N], present when the activation is relu
//                     out 0 dx [..., K] = dz weight
// linear_grad_weight  in 0  dy [..., N]  in 1  x [..., K]      in 2  y [..., N], present when the activation is relu
//                     out 0 dweight [N, K] = dz^T x            out 1 dbias [N] = column sums of dz; absent without a bias
// where dz = dy, or for relu dz = dy where y > 0, else 0.
#pragma once

#include <cstdint>

namespace perigee {

enum class LinearActivation : int32_t { none, relu };

struct LinearParams {
  LinearActivation activation = LinearActivation::none;  // read by linear only: its gradients look at whether y is there
};

}  // namespace perigee
