#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kPositional[] = {"out"};
constexpr Option kOptions[] = {
    {"out", "integer", nullptr, "number of outputs", {1}},
    kBiasOption,
    {"over", "name", "example", "what makes one row of inputs: a whole example, or each step of a sequence", {}, {"example", "steps"}},
    {"tied", "name", "", "an embedding or dense layer in front of this one whose weight [out, inputs] is used here too"},
    kActivationOption};

// The weight is [out, in], as in PyTorch.
Value weight(LayerContext& context, int64_t in, int64_t out) {
  const std::string tied = context.options().string("tied", "");
  if (tied.empty()) return context.parameter("weight", Shape{out, in}, ParameterRole::weight, in, out, "xavier");
  const Value shared = context.parameter_of(tied, "weight");
  if (shared.shape() != Shape{out, in})
    context.options().fail("tied", "the weight of '" + tied + "' does not fit", shared.shape().text(), Shape{out, in}.text());
  return shared;
}

// An image is flattened first.
std::vector<Value> build(LayerContext& context, std::span<const Value> inputs) {
  const bool steps = context.options().choice("over") == "steps";
  if (steps && inputs[0].rank() != 3) {
    std::vector<int64_t> dims = inputs[0].shape().vector();
    dims.erase(dims.begin());
    context.fail("needs a sequence (features x steps)", Shape(dims).text(), "", "leave over out");
  }
  if (!steps) refuse_mask(context, context.mask(inputs[0]), std::string(kPoolFirst) + ", or take over = \"steps\" for each step");
  const Value x = steps ? transpose(inputs[0], {0, 2, 1}) : flatten(inputs[0]);
  const int64_t in = x.shape().at(-1), out = context.options().integer_in("out", 1, int64_t{1} << 24);
  std::vector<Value> operands{x, weight(context, in, out)};
  if (context.options().boolean("bias", true)) operands.push_back(context.parameter("bias", Shape{out}, ParameterRole::bias, in, out, 0.0));
  const Value y = x.graph().apply("linear", operands);
  return {finish(context, steps ? transpose(y, {0, 2, 1}) : y)};
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
