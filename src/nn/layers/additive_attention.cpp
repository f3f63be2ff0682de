#include <algorithm>

#include "src/nn/layers/attend.h"

namespace perigee {
namespace {

constexpr const char* kAdditiveAttentionPositional[] = {"units"};
constexpr Option kAdditiveAttentionOptions[] = {
    {"units", "integer", "features of the queries", "features in which queries and keys meet", {1, 1 << 20}}};

// Probabilities [N, S, T] of scores; keys that do not count have none, and a query without a key has none at all.
Value probabilities(Value scores, Value mask) {
  Graph& graph = scores.graph();
  if (!mask) return softmax(scores, 2);
  const Value counts = reshape(cast(mask, scores.dtype()), Shape{mask.shape()[0], 1, mask.shape()[1]});
  const Value zero = graph.constant(0, {scores.dtype(), Shape()}), least = graph.constant(kHiddenScore, {scores.dtype(), Shape()});
  return softmax(where(greater(counts, zero), scores, least), 2) * counts;
}

StepUse additive_attention_step_use(const Config&, std::span<const Value> inputs) {
  const auto there = [](const Value& memory) { return static_cast<bool>(memory); };
  return inputs[0] && std::none_of(inputs.begin() + 1, inputs.end(), there) ? StepUse::each : StepUse::mixed;
}

std::vector<Value> build_additive_attention(LayerContext& context, std::span<const Value> inputs) {
  for (const Value& input : inputs) require_steps(context, input);
  const Value q = steps_first(inputs[0]), k = steps_first(inputs[1]), v = inputs.size() > 2 ? steps_first(inputs[2]) : k;
  if (v.shape()[1] != k.shape()[1])
    context.fail("needs a value for each key", std::to_string(v.shape()[1]) + " steps", std::to_string(k.shape()[1]));
  const int64_t n = q.shape()[0], queries = q.shape()[1], keys = k.shape()[1], units = context.options().integer("units", q.shape()[2]);
  const Value from = reshape(project(context, q, {"q", units}), Shape{n, queries, 1, units});
  const Value to = reshape(project(context, k, {"k", units}), Shape{n, 1, keys, units});
  const Value score = context.parameter("weight", Shape{1, units}, ParameterRole::weight, units, 1, "xavier");
  const Value scores = reshape(linear(tanh(from + to), score), Shape{n, queries, keys});
  const Value y = matmul(probabilities(scores, context.mask(inputs[1])), v);
  return {features_first(masked_rows(y, context.mask(inputs[0])))};
}

}  // namespace

extern const LayerDef layer_additive_attention;
const LayerDef layer_additive_attention{
    .name = "additive_attention",
    .doc = "additive_attention(queries, memory), or with values of their own: scores are w tanh(Q q + K k). Bahdanau et al. 2015.",
    .example = R"({"type": "additive_attention", "units": 3})",
    .example_input = "[[4, 2], [5, 3]]",
    .schema = layer_schema(kAdditiveAttentionOptions, kAdditiveAttentionPositional),
    .min_inputs = 2,
    .max_inputs = 3,
    .build = build_additive_attention,
    .step_use = additive_attention_step_use};

}  // namespace perigee
