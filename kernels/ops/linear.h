// linear and its gradients: a dense layer. R rows (all leading dimensions of x), K inputs, N outputs. The weight is [N, K], as in PyTorch.
//
// linear              in 0  x [..., K]   in 1  weight [N, K]   in 2  bias [N], optional
//                     out 0 y [..., N] = activation(z), z = x weight^T + bias      out 1 z [..., N], only behind gelu_tanh, optional
// linear_grad_input   in 0  dz [..., N]  in 1  weight [N, K]   in 2  kept [..., K], there unless the activation is none
//                     out 0 dx [..., K] = dz weight times the slope of the activation of the layer below, which makes it that layer's dz:
//                     kept is that layer's y for relu, whose slope is 1 where y > 0, else 0, and its z for gelu_tanh
// linear_grad_weight  in 0  dz [..., N]  in 1  x [..., K]
//                     out 0 dweight [N, K] = dz^T x            out 1 dbias [N] = column sums of dz; absent without a bias
#pragma once

#include <cstdint>

namespace perigee {

// gelu_tanh is z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))), Hendrycks and Gimpel 2016.
enum class LinearActivation : int32_t { none, relu, gelu_tanh };

struct LinearParams {
  LinearActivation activation = LinearActivation::none;  // of linear: its own; of linear_grad_input: that of the layer below
};

inline constexpr double kGeluScale = 0.79788456080286535588, kGeluCube = 0.044715;

// The argument of tanh; and, from tanh's result, the value and its slope.
template <class T>
constexpr T gelu_argument(T z) {
  return T(kGeluScale) * (z + T(kGeluCube) * (z * (z * z)));
}
template <class T>
constexpr T gelu_value(T z, T t) {
  return T(0.5) * z * (T(1) + t);
}
template <class T>
constexpr T gelu_slope(T z, T t) {
  return T(0.5) * (T(1) + t) + T(0.5) * z * (T(1) - t * t) * (T(kGeluScale) * (T(1) + T(3 * kGeluCube) * (z * z)));
}

}  // namespace perigee
