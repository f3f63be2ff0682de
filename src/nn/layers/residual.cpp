#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kResidualPositional[] = {"layers"};
constexpr Option kResidualOptions[] = {{"layers", "list of layers", nullptr, "the main way"},
                                       {"shortcut", "layer or list of layers", "the input itself", "the other way"},
                                       kActivationOption};

std::vector<Value> build_residual(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const Json* layers = options.raw("layers");
  if (layers == nullptr) options.fail("layers", "is missing", "", "a list of layers");
  const std::vector<Value> main = context.network(*layers, "", inputs);
  const Json* shortcut = options.raw("shortcut");
  const std::vector<Value> around =
      shortcut == nullptr || shortcut->is_null() ? std::vector<Value>{inputs[0]} : context.network(*shortcut, "shortcut", inputs);
  if (main.size() != 1 || around.size() != 1)
    context.fail("adds one result to one other", std::to_string(main.size()) + " and " + std::to_string(around.size()));
  if (main[0].shape() != around[0].shape())
    context.fail("the layers' result does not fit the shortcut's", main[0].shape().text() + " beside " + around[0].shape().text(), "",
                 "give shortcut a layer that makes them equal, such as a 1x1 conv2d with the same stride");
  return {finish(context, main[0] + around[0])};
}

}  // namespace

extern const LayerDef layer_residual;
const LayerDef layer_residual{
    .name = "residual",
    .stem = "block",
    .doc = "Layers with a way around them: activation(layers(x) + shortcut(x)). He et al. 2016.",
    .example =
        R"({"type": "residual", "layers": [{"type": "conv2d", "out": 3, "kernel": 3, "padding": 1}, "batchnorm"], "shortcut": {"type": "conv2d", "out": 3, "kernel": 1}, "activation": "tanh"})",
    .example_input = "[2, 4, 3]",
    .schema = layer_schema(kResidualOptions, kResidualPositional),
    .build = build_residual,
    .step_use = each_step};

}  // namespace perigee
