#include "src/nn/layers/attend.h"

namespace perigee {
namespace {

constexpr const char* kAttentionPositional[] = {"heads"};
constexpr Option kAttentionLayerOptions[] = {
    kHeadsOption,
    kKvHeadsOption,
    kHeadSizeOption,
    {"out", "integer", "features of the first input", "features of the result", {1, 1 << 24}},
    {"project", "boolean", "true", "learns what of the inputs to compare and to take; else they are taken as they are"},
    {"bias", "boolean", "false", "adds learned numbers to each projection"},
    kCausalOption,
    kWindowOption,
    kAttentionDropoutOption,
    kPositionsOption,
    kThetaOption,
    kFractionOption,
    kInterleavedOption};

// Queries, keys and values as they are: Luong's attention, and Deeplearning4j's AttentionVertex without projections.
std::vector<Value> compare_inputs(LayerContext& context, const Attending& how, std::span<const Value> inputs, Value mask) {
  for (const char* key : {"out", "head_size", "bias"})
    if (context.options().has(key)) context.options().fail(key, "has no effect", "project = false", "no such option, or project = true");
  const Value q = steps_first(inputs[0]), k = inputs.size() > 1 ? steps_first(inputs[1]) : q,
              v = inputs.size() > 2 ? steps_first(inputs[2]) : k;
  const int64_t wanted = how.groups * how.features;
  if (k.shape()[2] != wanted)
    context.fail("cannot compare the features of keys with those of queries", std::to_string(k.shape()[2]),
                 std::to_string(wanted) + ": " + std::to_string(how.features) + " for each of kv_heads", "leave project out");
  return {features_first(masked_rows(attend(context, how, q, k, v, mask, "dropout"), context.mask(inputs[0])))};
}

StepUse attention_step_use(const Config& options, std::span<const Value> inputs) {
  return options.boolean("project") && looks_back_alone(options, inputs) ? StepUse::each : StepUse::mixed;
}

std::vector<Value> build_attention(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  for (const Value& input : inputs) require_steps(context, input);
  const int64_t channels = inputs[0].shape()[1];
  Attending how = Attending::read(context, channels);
  if (inputs.size() == 1) how.segments = context.segments(inputs[0]);
  const Value mask = context.mask(inputs.size() > 1 ? inputs[1] : inputs[0]);
  if (!options.boolean("project")) return compare_inputs(context, how, inputs, mask);
  const bool bias = options.boolean("bias");
  const int64_t query_rows = how.heads * how.features, key_rows = how.groups * how.features;
  const Value x = steps_first(inputs[0]);
  Value seen;
  if (inputs.size() == 1) {
    const Value qkv = project(context, x, {"in", query_rows + 2 * key_rows, bias, "xavier", query_rows});
    seen = attend_self(context, how, qkv, mask, "dropout");
  } else {
    const Value keys = steps_first(inputs[1]), values = inputs.size() > 2 ? steps_first(inputs[2]) : keys;
    seen = attend(context, how, project(context, x, {"q", query_rows, bias}), project(context, keys, {"k", key_rows, bias}),
                  project(context, values, {"v", key_rows, bias}), mask, "dropout");
  }
  const Value y = project(context, seen, {"out", options.integer("out", channels), bias});
  return {features_first(masked_rows(y, context.mask(inputs[0])))};
}

}  // namespace

extern const LayerDef layer_attention;
const LayerDef layer_attention{
    .name = "attention",
    .doc =
        "Each step of x takes from the steps that it looks at: attention(x) among its own, attention(x, memory) among others, "
        "attention(queries, keys, values). Vaswani et al. 2017.",
    .example = R"({"type": "attention", "heads": 2, "kv_heads": 1, "causal": true, "bias": true, "positions": "rotary"})",
    .example_input = "[4, 5]",
    .schema = layer_schema(kAttentionLayerOptions, kAttentionPositional),
    .max_inputs = 3,
    .build = build_attention,
    .step_use = attention_step_use};

}  // namespace perigee
