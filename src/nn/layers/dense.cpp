#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kPositional[] = {"out"};
constexpr Option kOptions[] = {
    {"out", "integer", nullptr, "number of outputs", {1}},
    kBiasOption,
    {"over",
     "name",
     "example",
     "what makes one row of inputs: a whole example, or each step of a sequence, as time_distributed has it for any layer",
     {},
     {"example", "steps"}},
    {"tied", "name", "", "an embedding or dense layer in front of this one whose weight [out, inputs] is used here too"},
    kActivationOption};

// The weight is [out, in], as in PyTorch.
Value weight(LayerContext& context, int64_t in, int64_t out) {
  const std::string tied = context.options().string("tied", "");
  if (tied.empty()) return context.parameter("weight", Shape{out, in}, ParameterRole::weight, in, out, "xavier");
  const Value shared = context.parameter_of(tied, "weight");
  const Shape wanted{out, in};
  if (shared.shape() != wanted) {
    const bool fits = shared.rank() == 2 && shared.shape()[1] == in;
    context.options().fail("tied", "names '" + tied + "', whose weight does not fit", shared.shape().text(), wanted.text(),
                           "leave tied out" + (fits ? ", or give this layer " + std::to_string(shared.shape()[0]) + " outputs" : ""));
  }
  return shared;
}

// An image is flattened first.
std::vector<Value> build(LayerContext& context, std::span<const Value> inputs) {
  const bool steps = context.options().choice("over") == "steps";
  if (steps) require_steps(context, inputs[0], "leave over out");
  if (!steps) refuse_mask(context, context.mask(inputs[0]), std::string(kPoolFirst) + ", or take over = \"steps\" for each step");
  const Value x = steps ? steps_first(inputs[0]) : flatten(inputs[0]);
  const int64_t in = x.shape().at(-1), out = context.options().integer_in("out", 1, int64_t{1} << 24);
  std::vector<Value> operands{x, weight(context, in, out)};
  if (context.options().boolean("bias", true)) operands.push_back(context.parameter("bias", Shape{out}, ParameterRole::bias, in, out, 0.0));
  const Value y = x.graph().apply("linear", operands);
  return {finish(context, steps ? features_first(y) : y)};
}

StepUse step_use(const Config& options, std::span<const Value>) {
  return options.choice("over") == "steps" ? StepUse::each : StepUse::mixed;
}

}  // namespace

extern const LayerDef layer_dense;
const LayerDef layer_dense{.name = "dense",
                           .doc = "Each output is a learned weighted sum of all inputs. Flattens what is not flat.",
                           .example = R"({"type": "dense", "out": 5, "activation": "sigmoid"})",
                           .example_input = "[7]",
                           .schema = layer_schema(kOptions, kPositional),
                           .build = build,
                           .step_use = step_use};

}  // namespace perigee
