// A function of a network's output and its target that a job stores: losses and figures of one's own.
#pragma once

#include "src/core/config.h"
#include "src/graph/graph.h"

namespace perigee {

// {"inputs": two names, "program": [...], "outputs": [name]} as values [N], one for each example of `output` [N, ...]: the function's own, or the
// terms of a mean over the batch. Whole-number targets are class numbers, which count from 1 in the function. Error(model).
Value own_function(Graph& graph, const Config& options, Value output, Value target);

}  // namespace perigee
