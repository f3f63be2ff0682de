#include <algorithm>

#include "src/nn/layers/attend.h"

namespace perigee {
namespace {

constexpr const char* kAttentionPositional[] = {"heads"};
constexpr Option kAttentionLayerOptions[] = {
    kHeadsOption,
    kKvHeadsOption,
    kHeadSizeOption,
    {"value_size", "integer", "head_size", "features of one head's values", {1, 65536}},
    {"out", "integer", "features of the first input", "features of the result", {1, 1 << 24}},
    {"project", "boolean", "true", "learns what of the inputs to compare and to take; else they are taken as they are"},
    {"bias", "boolean", "false", "adds learned numbers to each projection"},
    kCausalOption,
    {"align",
     "name",
     "last",
     "with causal, and fewer queries than keys: the last query is at the last key, or the first at the first",
     {},
     {"last", "first"}},
    kAttentionScaleOption,
    kWindowOption,
    kAttentionDropoutOption,
    {"more_keys",
     "name",
     "none",
     "keys and values beside those of the steps: learned ones, zeros, or both; torch's add_bias_kv, add_zero_attn",
     {},
     {"none", "learned", "zero", "both"}},
    kPositionsOption,
    kThetaOption,
    kFractionOption,
    kInterleavedOption};

// Learned keys and values, then such of zeros.
AddedScores more_keys(LayerContext& context, const Attending& how) {
  const std::string kind = context.options().choice("more_keys");
  AddedScores more;
  const auto rows = [&](const char* name, int64_t features) {
    const int64_t width = how.groups * features;
    std::vector<Value> parts;
    if (kind != "zero") parts.push_back(context.parameter(name, Shape{1, width}, ParameterRole::weight, 1, width, "xavier"));
    if (kind != "learned") parts.push_back(broadcast_to(context.graph().constant(0, {context.dtype(), Shape()}), Shape{1, width}));
    return concatenate(parts, 0);
  };
  if (kind == "none") return more;
  more.keys = rows("more_key", how.features);
  more.values = rows("more_value", how.value_features);
  return more;
}

Value attend_to(LayerContext& context, const Attending& how, Value q, Value k, Value v, Value mask, Value bias) {
  AddedScores added = more_keys(context, how);
  added.bias = bias;
  if (added) return attend_by_scores(context, how, q, k, v, mask, added, "dropout");
  return attend(context, how, q, k, v, mask, "dropout");
}

// Queries, keys and values as they are: Luong's attention, and Deeplearning4j's AttentionVertex without projections.
std::vector<Value> compare_inputs(LayerContext& context, const Attending& how, std::span<const Value> inputs, Value mask) {
  for (const char* key : {"out", "head_size", "value_size", "bias"})
    if (context.options().has(key)) context.options().fail(key, "has no effect", "project = false", "no such option, or project = true");
  const Value q = steps_first(inputs[0]), k = inputs.size() > 1 ? steps_first(inputs[1]) : q,
              v = inputs.size() > 2 ? steps_first(inputs[2]) : k;
  const int64_t wanted = how.groups * how.features;
  if (k.shape()[2] != wanted)
    context.fail("cannot compare the features of keys with those of queries", std::to_string(k.shape()[2]),
                 std::to_string(wanted) + ": " + std::to_string(how.features) + " for each of kv_heads", "leave project out");
  Attending taken = how;
  taken.value_features = v.shape()[2] / how.groups;
  const Value y = attend_to(context, taken, q, k, v, mask, inputs.size() > 3 ? inputs[3] : Value());
  return {features_first(masked_rows(y, context.mask(inputs[0])))};
}

StepUse attention_step_use(const Config& options, std::span<const Value> inputs) {
  const bool usual = options.boolean("project") && options.choice("more_keys") == "none" && inputs.size() < 4;
  return usual && !options.has("value_size") && looks_back_alone(options, inputs) ? StepUse::each : StepUse::mixed;
}

std::vector<Value> build_attention(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  for (const Value& input : inputs.first(std::min<size_t>(3, inputs.size()))) require_steps(context, input);
  const int64_t channels = inputs[0].shape()[1];
  Attending how = Attending::read(context, channels);
  how.value_features = options.integer("value_size", how.features);
  how.aligned = options.choice("align") == "first";
  if (how.aligned && !how.causal) options.fail("align", "has no effect", "causal = false", "causal = true, or no align");
  if (inputs.size() == 1) how.segments = context.segments(inputs[0]);
  const Value mask = context.mask(inputs.size() > 1 ? inputs[1] : inputs[0]);
  if (!options.boolean("project")) return compare_inputs(context, how, inputs, mask);
  const bool bias = options.boolean("bias");
  const int64_t query_rows = how.heads * how.features, key_rows = how.groups * how.features, value_rows = how.groups * how.value_features;
  const Value x = steps_first(inputs[0]);
  Value seen;
  if (inputs.size() > 1) {
    const Value keys = steps_first(inputs[1]), values = inputs.size() > 2 ? steps_first(inputs[2]) : keys;
    seen = attend_to(context, how, project(context, x, {"q", query_rows, bias}), project(context, keys, {"k", key_rows, bias}),
                     project(context, values, {"v", value_rows, bias}), mask, inputs.size() > 3 ? inputs[3] : Value());
  } else {
    const Value qkv = project(context, x, {"in", query_rows + key_rows + value_rows, bias, "xavier", query_rows});
    const auto columns = [&](int64_t from, int64_t count) { return part_of(qkv, 2, from, from + count); };
    if (value_rows == key_rows && options.choice("more_keys") == "none") seen = attend_self(context, how, qkv, mask, "dropout");
    else
      seen = attend_to(context, how, columns(0, query_rows), columns(query_rows, key_rows), columns(query_rows + key_rows, value_rows),
                       mask, {});
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
        "attention(queries, keys, values), attention(queries, keys, values, numbers). The numbers are added to the scores: [queries, "
        "keys], "
        "or with heads in front. Vaswani et al. 2017.",
    .example = R"({"type": "attention", "heads": 2, "kv_heads": 1, "causal": true, "bias": true, "positions": "rotary"})",
    .example_input = "[4, 5]",
    .schema = layer_schema(kAttentionLayerOptions, kAttentionPositional),
    .max_inputs = 4,
    .build = build_attention,
    .step_use = attention_step_use};

}  // namespace perigee
