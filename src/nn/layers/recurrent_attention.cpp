#include "src/nn/layers/attend.h"

namespace perigee {
namespace {

constexpr const char* kRecurrentAttentionPositional[] = {"out"};
constexpr Option kRecurrentAttentionOptions[] = {{"out", "integer", nullptr, "features of the state and the result", {1, 1 << 20}},
                                                 kHeadsOption,
                                                 kHeadSizeOption,
                                                 kBiasOption,
                                                 {"activation", "activation", "tanh", "makes the next state"}};

// a[t] = activation(W x[t] + b + R attention(query a[t-1]; keys and values x)); no attention at the first step.
std::vector<Value> build_recurrent_attention(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  require_steps(context, inputs[0]);
  const Value x = steps_first(inputs[0]), mask = context.mask(inputs[0]);
  const int64_t n = x.shape()[0], steps = x.shape()[1], out = options.integer("out");
  const Attending how = Attending::read_heads(context, out);
  const int64_t rows = how.heads * how.features;
  const Json activation = options.raw("activation") != nullptr ? *options.raw("activation") : Json("tanh");
  const Value from_input = project(context, x, {"", out, options.boolean("bias", true)});
  const Value keys = project(context, x, {"k", rows}), values = project(context, x, {"v", rows});
  const Product query = learned_product(context, out, {"q", rows}), seen = learned_product(context, rows, {"out", out}),
                recurrent = learned_product(context, out, {"recurrent", out});
  std::vector<Value> states;
  for (int64_t t = 0; t < steps; ++t) {
    Value sum = part_of(from_input, 1, t, t + 1);
    if (t > 0) {
      sum = sum + recurrent(seen(attend(context, how, query(states.back()), keys, values, mask, "")));
    }
    states.push_back(reshape(context.activation(activation, reshape(sum, Shape{n, out})), Shape{n, 1, out}));
  }
  const Value y = states.size() == 1 ? states[0] : concatenate(states, 1);
  return {features_first(masked_rows(y, mask))};
}

}  // namespace

extern const LayerDef layer_recurrent_attention;
const LayerDef layer_recurrent_attention{
    .name = "recurrent_attention",
    .doc = "A simple recurrent layer whose state, at each step, looks at the whole sequence. One step after another: for short sequences.",
    .example = R"({"type": "recurrent_attention", "out": 4, "heads": 2})",
    .example_input = "[3, 4]",
    .schema = layer_schema(kRecurrentAttentionOptions, kRecurrentAttentionPositional),
    .build = build_recurrent_attention};

}  // namespace perigee
