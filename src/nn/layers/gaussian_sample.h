// The reparameterised draw of a variational autoencoder, and its term in the loss.
#pragma once

#include "src/nn/layer.h"

namespace perigee {

// A normal distribution with independent dimensions: the first half of dimension 1 of `x` are means, the second logarithms of variances.
struct DiagonalGaussian {
  Value mean, log_variance;
};
DiagonalGaussian diagonal_gaussian(LayerContext& context, Value x);
// mean + deviation * noise: a draw through which gradients flow to both. `purpose` names it, as normal_like has it.
Value reparameterised(LayerContext& context, const DiagonalGaussian& code, const std::string& purpose);
// [N]: the divergence from the standard normal, 1/2 sum(mean^2 + variance - 1 - log variance).
Value divergence_from_standard(const DiagonalGaussian& code);

}  // namespace perigee
