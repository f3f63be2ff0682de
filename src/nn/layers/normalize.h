// Shared by the layers that normalise rows.
#pragma once

#include <string>

#include "src/nn/layers/common.h"

namespace perigee {

// Rows of x [..., features] with deviation 1 and, where centred, mean 0, times a learned gain, plus a learned offset.
struct Norm {
  std::string name;  // of parameters: `name`_weight, `name`_bias; empty: weight, bias
  bool centre = true, scale = true, shift = true;
  double epsilon = 1e-5;
};
Value normalize_rows(LayerContext& context, Value x, const Norm& norm);

// "over": features, channels or last. Moves what is normalised together to the end, and the result back.
Value normalize(LayerContext& context, Value x, const Norm& norm);

inline constexpr Option kOverOption{
    "over",     "name",
    "features", "what is normalised together: the whole example, the channels at each position, or the last dimension",
    {},         {"features", "channels", "last"}};

}  // namespace perigee
