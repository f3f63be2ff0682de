// softmax, log_softmax: in[0] x -> out[0], of the same shape; normalised along `axis`.
// cross_entropy: in[0] logits (N, C, d...), in[1] labels: either classes, i64 (N, d...), or distributions (N, C, d...) of the
//   dtype of the logits; out[0] losses (N, d...): -sum_c q_c log softmax(logits)_c with q = (1 - s) label + s / C, s the label
//   smoothing (Szegedy et al., 2016). A class outside 0..C-1 gives NaN.
// cross_entropy_grad: in[0] logits, in[1] labels, in[2] gradient of the losses (N, d...) -> out[0] gradient of the logits:
//   (softmax(logits) * sum(q) - q) * gradient.
#pragma once

#include <cstdint>

namespace perigee {

struct SoftmaxParams {
  int32_t axis;
};

struct CrossEntropyParams {
  double label_smoothing;
};

}  // namespace perigee
