// Named activation functions, composed from ops. `describe` and help list them from this table.
#pragma once

#include <span>

#include "src/nn/layer.h"

namespace perigee {

struct ActivationDef {
  const char* name = nullptr;
  const char* doc = nullptr;  // the formula and the options with their defaults
  Value (*build)(LayerContext& context, const Config& options, Value x) = nullptr;
  Schema schema = {};
};

std::span<const ActivationDef> all_activations();

// `activation` is a name or {"type": name, options...}. Error(model) with the nearest known name.
Value apply_activation(LayerContext& context, const Json& activation, Value x);

}  // namespace perigee
