#include "src/nn/layers/sparsity.h"

#include <cmath>

#include "src/nn/layers/common.h"

namespace perigee {
namespace {

// A unit that is never or always on has a finite penalty: beyond the edge it goes on as a straight line.
constexpr double kEdge = 1e-6;

constexpr const char* kSparsityPositional[] = {"target"};
constexpr Option kSparsityOptions[] = {{"target", "number", "0.05", "mean activation that is wanted of each unit", {1e-6, 0.999999}},
                                       {"weight", "number or schedule", "1", "factor of the penalty in the loss of an example", {0, 1e9}}};

std::vector<Value> build_sparsity(LayerContext& context, std::span<const Value> inputs) {
  if (context.training()) context.add_loss(sparsity_terms(flatten(inputs[0]), context.options().number("target")), "weight");
  return {inputs[0]};
}

}  // namespace

// The penalty is a function of the batch's means, while threads and sub-batches see their own examples alone. The means are statistics of
// batch_norm, which all slices exchange. Around them the penalty is linear in the activations: KL(m) + KL'(m) (a - m). The mean of that over
// the batch is KL(m), and its slope the true one.
Value sparsity_terms(Value activations, double target) {
  Graph& graph = activations.graph();
  const Value operands[] = {activations};
  const Value statistics = stop_gradient(graph.apply_all("batch_norm", operands, Json::object())[1]);
  const auto number = [&](double value) { return graph.constant(value, {statistics.dtype(), Shape()}); };
  const Value mean = minimum(maximum(statistics, number(kEdge)), number(1 - kEdge));
  const double p = target, q = 1 - target;
  const Value divergence = (p * std::log(p) + q * std::log(q)) - p * log(mean) - q * log(1.0 - mean);
  const Value slope = q / (1.0 - mean) - p / mean;
  const Shape row{1, mean.shape()[0]};
  const Value terms = reshape(slope, row) * (activations - reshape(mean, row)) + reshape(divergence, row);
  return reduce_sum(terms, {1});
}

extern const LayerDef layer_sparsity;
const LayerDef layer_sparsity{
    .name = "sparsity",
    .doc =
        "Passes activations between 0 and 1 on, and adds to the loss of training the Kullback-Leibler divergence of each unit's mean over "
        "the batch "
        "from `target`, summed over the units (Ng 2011): after a sigmoid, most units then rest for most examples.",
    .example = R"({"type": "sparsity", "target": 0.1, "weight": 0.5})",
    .example_input = "[6]",
    .schema = layer_schema(kSparsityOptions, kSparsityPositional),
    .build = build_sparsity};

}  // namespace perigee
