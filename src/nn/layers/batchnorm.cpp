#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr Option kBatchnormOptions[] = {
    {"decay", "number", "0.9", "of the running statistics: running = decay * running + (1 - decay) * batch", {0, 1}},
    {"epsilon", "number", "1e-5", "added to the variance", {0, 1}},
    {"scale", "boolean", "true", "multiplies by a learned gamma"},
    {"shift", "boolean", "true", "adds a learned beta"},
    kActivationOption,
};

std::vector<Value> build_batchnorm(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const Value input = inputs[0];
  if (input.rank() < 2) context.fail("needs channels to normalise", "a single number");
  refuse_mask(context, context.mask(input), "take layernorm { over = \"channels\" }, which looks at each step alone");
  const int64_t channels = input.shape()[1];
  const double epsilon = options.number("epsilon"), decay = options.number("decay");
  const Value gamma =
      options.boolean("scale") ? context.parameter("weight", Shape{channels}, ParameterRole::gain, channels, channels, 1.0) : Value();
  const Value beta =
      options.boolean("shift") ? context.parameter("bias", Shape{channels}, ParameterRole::bias, channels, channels, 0.0) : Value();
  const Value mean = context.state("mean", Shape{channels}, 0), variance = context.variance_state("variance", "mean", Shape{channels}, 1);
  Value y;
  if (context.training() && !(context.frozen("mean") && context.frozen("variance"))) {
    // Sequences as images of height 1, for which there are kernels.
    const Value x = input.rank() == 3 ? to_image(input, 1) : input;
    Json attrs = Json::object();
    attrs.set("epsilon", epsilon);
    const Value operands[] = {x, gamma, beta};
    const std::vector<Value> results = context.graph().apply_all("batch_norm", operands, std::move(attrs));
    // Both moments of the mixture decay * running + (1 - decay) * batch. Its variance is not formed from E[x^2], which in float32 loses
    // what is small beside the mean.
    context.assign("mean", decay * mean + (1 - decay) * results[1]);
    context.assign("variance", decay * variance + (1 - decay) * results[2] + decay * (1 - decay) * square(results[1] - mean));
    y = input.rank() == 3 ? from_image(results[0], 1) : results[0];
  } else {
    // A replica that adds its own change to the result of others may carry the variance below 0.
    const Value not_negative = maximum(variance, context.graph().constant(0, {mean.dtype(), Shape()}));
    const Value inverse = context.graph().apply("rsqrt", {not_negative + epsilon});
    y = (input - per_channel(mean, input.rank())) * per_channel(gamma ? gamma * inverse : inverse, input.rank());
    if (beta) y = y + per_channel(beta, input.rank());
  }
  return {finish(context, y)};
}

}  // namespace

extern const LayerDef layer_batchnorm;
const LayerDef layer_batchnorm{
    .name = "batchnorm",
    .stem = "bn",
    .doc =
        "Gives each channel mean 0 and variance 1 over the batch, then a learned scale and shift; running statistics in inference, "
        "and in training where trainable = false or pretrained.freeze keep them.",
    .example = R"({"type": "batchnorm", "epsilon": 1e-3, "activation": "tanh"})",
    .example_input = "[3, 4, 5]",
    .schema = layer_schema(kBatchnormOptions),
    .build = build_batchnorm,
    .step_use = each_step};

}  // namespace perigee
