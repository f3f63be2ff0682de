// Shared by the locally connected layers.
#pragma once

#include "src/nn/layers/common.h"

namespace perigee {

// Options out, kernel, stride, padding, dilation, bias, activation. Weight [places, in * window, out], bias [out, places].
std::vector<Value> build_local(LayerContext& context, Value x, int dims);

}  // namespace perigee
