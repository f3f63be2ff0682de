#include "src/graph/op.h"
#include "src/nn/layers/recurrent.h"

namespace perigee {
namespace {

constexpr const char* kPositional[] = {"layer"};
constexpr Option kOptions[] = {{"layer", "layer", nullptr, "takes the features of one step"}};

// Random draws belong to examples, of which the layer inside sees as many as there are steps.
void refuse_draws(LayerContext& context, size_t first) {
  const std::vector<Node>& nodes = context.graph().nodes();
  for (size_t i = first; i < nodes.size(); ++i)
    if (nodes[i].op->random)
      context.fail("the layer inside draws random numbers", nodes[i].scope, "", "put dropout before or behind time_distributed");
}

std::vector<Value> build(LayerContext& context, std::span<const Value> inputs) {
  require_image(context, inputs[0], 1);
  Graph& graph = context.graph();
  const Json* layer = context.options().raw("layer");
  if (layer == nullptr) context.options().fail("layer", "is missing", "", "a layer");
  const int64_t steps = inputs[0].shape()[2];
  const Value rows = graph.apply("fold_steps", {steps_first(inputs[0])});
  const size_t first = graph.nodes().size();
  const Value results[] = {rows};
  const std::vector<Value> made = context.sublayer(*layer, "layer", results);
  refuse_draws(context, first);
  if (made.size() != 1 || made[0].rank() != 2)
    context.fail("the layer must make one row of features of a step", made.empty() ? "nothing" : made[0].shape().text());
  return {steps_first(graph.apply("unfold_steps", {made[0]}, Json(Json::Object{{"steps", Json(steps)}})))};
}

}  // namespace

extern const LayerDef layer_time_distributed;
const LayerDef layer_time_distributed{
    .name = "time_distributed",
    .stem = "steps",
    .doc = "A layer at each step of a sequence (features x steps), with the same parameters.",
    .example = R"({"type": "time_distributed", "layer": {"type": "dense", "out": 4, "activation": "tanh"}})",
    .example_input = "[2, 3]",
    .schema = layer_schema(kOptions, kPositional),
    .build = build};

}  // namespace perigee
