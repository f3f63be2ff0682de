// The loss of a model in a graph: a term for each output with a target, weighted by what the batch says of its steps and examples, and those
// that layers add.
#pragma once

#include <vector>

#include "src/model/model.h"

namespace perigee {

// All heads, the main one first.
std::vector<LossHead> heads_of(const ModelSpec& spec);
// The input that a head's weight is, where that is a schedule. It is named by the network's output, of which there may be several.
LossFactor factor_of(const ModelSpec& spec, const LossHead& head);
// The loss of one of the network's outputs, or null.
const Json& loss_of(const ModelSpec& spec, int output);

// The loss of each example, [batch]. `steps`: of a step of training, in which weights that are schedules are inputs.
Value add_loss(Graph& graph, const ModelSpec& spec, const BuiltNetwork& built, bool steps = false);
// That of one head alone, without its weight.
Value add_loss_of(Graph& graph, const ModelSpec& spec, const BuiltNetwork& built, size_t head);

}  // namespace perigee
