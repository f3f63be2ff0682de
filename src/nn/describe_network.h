// The parts of a network: layers, shapes, parameters, memory, arithmetic.
#pragma once

#include <vector>

#include "src/core/json.h"
#include "src/nn/network.h"

namespace perigee {

// {"inputs": [{"name", "shape"}], "layers": [{"name", "type", "shape", "parameters", "activation_bytes", "flops"}], "parameters",
// "activation_bytes", "flops"}; bytes and FLOPs are of one example, forward. Errors as Network::build has them, when network and inputs
// do not fit.
Json describe_network(const Network& network, const std::vector<NetworkInput>& inputs);

}  // namespace perigee
