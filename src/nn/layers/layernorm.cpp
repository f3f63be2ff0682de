#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr Option kOptions[] = {{"over",
                                "name",
                                "features",
                                "what is normalised together: the whole example, the channels at each position, or the last dimension",
                                {},
                                {"features", "channels", "last"}},
                               {"epsilon", "number", "1e-5", "added to the variance", {0, 1}},
                               {"scale", "boolean", "true", "multiplies by a learned gamma"},
                               {"shift", "boolean", "true", "adds a learned beta"},
                               kActivationOption};

std::vector<Value> build(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const std::string over = options.choice("over");
  const Value x = inputs[0];
  if (x.rank() < 2) context.fail("needs features to normalise", "a single number");
  if (over != "channels" || x.rank() < 3) refuse_mask(context, context.mask(x), "normalise each step alone: over = \"channels\"");
  std::vector<int64_t> order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != 1) order.push_back(i);
  order.push_back(1);
  const bool moved = over == "channels" && x.rank() > 2;
  const Value rows = over == "features" ? flatten(x) : moved ? transpose(x, order) : x;
  const int64_t k = rows.shape().at(-1);
  const Value gamma = options.boolean("scale") ? context.parameter("weight", Shape{k}, ParameterRole::gain, k, k, 1.0) : Value();
  const Value beta = options.boolean("shift") ? context.parameter("bias", Shape{k}, ParameterRole::bias, k, k, 0.0) : Value();
  Json attrs = Json::object();
  attrs.set("epsilon", options.number("epsilon"));
  const Value operands[] = {rows, gamma, beta};
  Value y = context.graph().apply("layer_norm", operands, std::move(attrs));
  if (moved) {
    std::vector<int64_t> back{0, x.rank() - 1};
    for (int i = 1; i < x.rank() - 1; ++i) back.push_back(i);
    y = transpose(y, back);
  }
  return {finish(context, reshape(y, x.shape()))};
}

}  // namespace

extern const LayerDef layer_layernorm;
const LayerDef layer_layernorm{.name = "layernorm",
                               .stem = "ln",
                               .doc = "Gives each example mean 0 and variance 1, then a learned scale and shift.",
                               .example = R"({"type": "layernorm", "over": "channels"})",
                               .example_input = "[5, 3, 2]",
                               .schema = layer_schema(kOptions),
                               .build = build};

}  // namespace perigee
