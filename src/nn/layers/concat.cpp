#include "src/nn/layers/combine.h"

namespace perigee {
namespace {

constexpr const char* kConcatLayerPositional[] = {"axis"};
constexpr Option kConcatLayerOptions[] = {{"axis", "integer", "1", "the dimension; 1 are the channels"}};

std::vector<Value> build_concat(LayerContext& context, std::span<const Value> inputs) {
  const int64_t axis = context.options().integer_in("axis", 1, kMaxRank - 1, 1);
  for (const Value& input : inputs)
    if (axis >= input.rank() || input.rank() != inputs[0].rank() ||
        input.shape().with(static_cast<int>(axis), 0) != inputs[0].shape().with(static_cast<int>(axis), 0))
      context.fail("its inputs fit only when they differ in dimension " + std::to_string(axis) + " alone",
                   input.shape().text() + " beside " + inputs[0].shape().text());
  if (inputs.size() == 1) return {inputs[0]};
  return {concatenate(inputs, axis)};
}

StepUse concat_step_use(const Config& options, std::span<const Value> inputs) {
  return inputs[0].rank() == 3 && options.integer_in("axis", 1, kMaxRank - 1, 1) == 1 ? StepUse::each : StepUse::mixed;
}

}  // namespace

extern const LayerDef layer_concat;
const LayerDef layer_concat{.name = "concat",
                            .doc = "Its inputs one after the other along a dimension, usually the channels.",
                            .example = R"({"type": "concat"})",
                            .example_input = "[[2, 3], [4, 3]]",
                            .schema = layer_schema(kConcatLayerOptions, kConcatLayerPositional),
                            .max_inputs = -1,
                            .build = build_concat,
                            .step_use = concat_step_use};

}  // namespace perigee
