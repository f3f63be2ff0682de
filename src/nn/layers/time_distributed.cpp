#include "src/graph/op.h"
#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kTimeDistributedPositional[] = {"layer"};
constexpr Option kTimeDistributedOptions[] = {{"layer", "layer", nullptr, "takes the features of one step"}};

// An op of a layer, or attention that drops some of what it looks at.
bool draws(const Node& node) {
  const Json* dropout = node.attrs.is_object() ? node.attrs.find("dropout") : nullptr;
  return node.op->random || (dropout != nullptr && dropout->is_number() && dropout->as_number() > 0);
}

// The layer inside takes each step of each example for an example: random draws and statistics of a batch would not be those of the sequence.
void refuse_ops_of_examples(LayerContext& context, size_t first, Value mask) {
  const std::vector<Node>& nodes = context.graph().nodes();
  for (size_t i = first; i < nodes.size(); ++i) {
    if (draws(nodes[i]))
      context.fail("the layer inside draws random numbers", nodes[i].scope, "", "put dropout before or behind time_distributed");
    if (nodes[i].op->collective) refuse_mask(context, mask, "take layernorm, which looks at each step alone");
  }
}

std::vector<Value> build_time_distributed(LayerContext& context, std::span<const Value> inputs) {
  require_steps(context, inputs[0]);
  Graph& graph = context.graph();
  const Json* layer = context.options().raw("layer");
  if (layer == nullptr) context.options().fail("layer", "is missing", "", "a layer");
  const int64_t steps = inputs[0].shape()[2];
  const Value rows = graph.apply("fold_steps", {steps_first(inputs[0])});
  const size_t first = graph.nodes().size();
  const Value results[] = {rows};
  const std::vector<Value> made = context.sublayer(*layer, "layer", results);
  refuse_ops_of_examples(context, first, context.mask(inputs[0]));
  if (made.size() != 1 || made[0].rank() != 2)
    context.fail("the layer must make one row of features of a step",
                 made.size() == 1 ? example_text(made[0]) : std::to_string(made.size()) + " results", "one dimension",
                 "end the layers inside with flatten {}");
  return {features_first(graph.apply("unfold_steps", {made[0]}, Json(Json::Object{{"steps", Json(steps)}})))};
}

}  // namespace

extern const LayerDef layer_time_distributed;
const LayerDef layer_time_distributed{
    .name = "time_distributed",
    .stem = "steps",
    .doc = "A layer at each step of a sequence (features x steps), with the same parameters.",
    .example = R"({"type": "time_distributed", "layer": {"type": "dense", "out": 4, "activation": "tanh"}})",
    .example_input = "[2, 3]",
    .schema = layer_schema(kTimeDistributedOptions, kTimeDistributedPositional),
    .build = build_time_distributed,
    .step_use = folds_steps};

}  // namespace perigee
