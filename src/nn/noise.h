// Random disturbances in training: masks on inputs, noise on weights. Draws belong to the example, or for weights to the step
// (src/ARCHITECTURE.md, decision 4).
#pragma once

#include "src/nn/layer.h"

namespace perigee {

// The kinds of "weight_noise".
std::span<const NamedSchema> weight_noise_kinds();

// Uniform or normal draws in the shape of `x`; dimension 0 of `x` counts examples.
Value uniform_like(LayerContext& context, const std::string& purpose, Value x);
Value normal_like(LayerContext& context, const std::string& purpose, Value x, double mean, double stddev);

// Zero with probability `rate`, else x / (1 - rate); `draws` broadcasts to `x`. Srivastava et al. 2014.
Value dropped(Value x, Value draws, double rate);

// The common option "dropout" on one of the inputs: a rate, or a layer.
Value drop_input(LayerContext& context, Value x, size_t input);
// The common option "weight_noise".
Value noisy_parameter(LayerContext& context, Value parameter, ParameterRole role, const std::string& name);

}  // namespace perigee
