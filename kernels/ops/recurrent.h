// Recurrent cells over sequences: N examples, T steps, H units; the steps go forward, or backward with `reverse`. The products of the inputs
// with their weights (and the bias) are made before, for all steps at once; `r` are the recurrent weights. h(t-1) is the state after the step
// that came before t in time order, h0 at the first. A step whose mask is 0 (below 1/2) keeps
// the state, and no gradient flows to its input or to weights.
//
//   lstm (Gers, Schmidhuber and Cummins 2000), gates i f g o:
//     [i f g o] = x + h(t-1) r;  c = sigmoid(f) c(t-1) + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c)
//     in 0 x[N,T,4H]  in 1 r[H,4H]  in 2 h0[N,H], optional: 0  in 3 c0[N,H], optional: 0  in 4 mask[N,T], optional: 1
//     out 0 h[N,T,H]  out 1 c[N,T,H]  out 2 gates[N,T,4H], after sigmoid and tanh; at masked steps they are what they would be
//   lstm_grad:
//     in 0 dh[N,T,H], optional: 0  in 1 dc[N,T,H], optional: 0  in 2 r  in 3 c  in 4 gates  in 5 c0, optional  in 6 mask, optional
//     out 0 dx[N,T,4H]  out 1 dh0[N,H]  out 2 dc0[N,H]
//
//   gru (Cho et al. 2014), gates r z n; `reset` after (cuDNN, PyTorch) or before the product of n:
//     r = sigmoid(x_r + h(t-1) r_r);  z likewise;  h = (1 - z) n + z h(t-1)
//     after:  v = h(t-1) r_n + bias;  n = tanh(x_n + r v)         before:  v = r h(t-1);  n = tanh(x_n + v r_n)
//     in 0 x[N,T,3H]  in 1 r[H,3H]  in 2 bias[H], optional: 0; only after  in 3 h0, optional  in 4 mask, optional
//     out 0 h[N,T,H]  out 1 gates[N,T,4H]: r z n v
//   gru_grad:
//     in 0 dh[N,T,H]  in 1 r  in 2 h  in 3 gates  in 4 h0, optional  in 5 mask, optional
//     out 0 d[N,T,4H]: gradients of the sums inside r z n, then of v  out 1 dh0[N,H]
//
//   rnn (Elman 1990):  h = activation(x + h(t-1) r)
//     in 0 x[N,T,H]  in 1 r[H,H]  in 2 h0, optional  in 3 mask, optional;  out 0 h[N,T,H]
//   rnn_grad:
//     in 0 dh[N,T,H]  in 1 r  in 2 h  in 3 mask, optional;  out 0 dx[N,T,H]  out 1 dh0[N,H]
//
//   recurrent_grad_weight: dr[k,j] = sum over n and t of h(t-1)[k] d[j]; for gru d is the gradient of what r multiplies:
//     none:   in 0 d[N,T,J]  in 1 h  in 2 h0, optional                        (lstm, rnn)
//     after:  d = r z . v of d[N,T,4H]
//     before: d = r z n of d[N,T,4H], and in n's columns v of the gates (in 3) takes the place of h(t-1)
//     out 0 dr[H,J], J = 3H for gru
#pragma once

#include <cstdint>

namespace perigee {

enum class RecurrentReset : uint8_t { none, after, before };
enum class RecurrentActivation : uint8_t { tanh, relu };

struct RecurrentParams {
  bool reverse = false;
  RecurrentReset reset = RecurrentReset::none;
  RecurrentActivation activation = RecurrentActivation::tanh;
};

}  // namespace perigee
