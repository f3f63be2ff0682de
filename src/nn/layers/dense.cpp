#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kPositional[] = {"out"};
constexpr Option kOptions[] = {{"out", "integer", nullptr, "number of outputs", {1}}, kBiasOption, kActivationOption};

// An image is flattened first; the weight is [out, in], as in PyTorch.
std::vector<Value> build(LayerContext& context, std::span<const Value> inputs) {
  refuse_mask(context, context.mask(inputs[0]), std::string(kPoolFirst) + ", or take conv1d { kernel = 1 } for each step");
  const Value x = flatten(inputs[0]);
  const int64_t in = x.shape()[1], out = context.options().integer_in("out", 1, int64_t{1} << 24);
  std::vector<Value> operands{x, context.parameter("weight", Shape{out, in}, ParameterRole::weight, in, out, "xavier")};
  if (context.options().boolean("bias", true)) operands.push_back(context.parameter("bias", Shape{out}, ParameterRole::bias, in, out, 0.0));
  return {finish(context, x.graph().apply("linear", operands))};
}

}  // namespace

extern const LayerDef layer_dense;
const LayerDef layer_dense{.name = "dense",
                           .doc = "Each output is a learned weighted sum of all inputs. Flattens what is not flat.",
                           .example = R"({"type": "dense", "out": 5, "activation": "sigmoid"})",
                           .example_input = "[7]",
                           .schema = layer_schema(kOptions, kPositional),
                           .build = build};

}  // namespace perigee
