#include "src/nn/layers/attend.h"

namespace perigee {
namespace {

constexpr const char* kLearnedAttentionPositional[] = {"queries"};
constexpr Option kLearnedAttentionOptions[] = {{"queries", "integer", nullptr, "learned queries: steps of the result", {1, 1 << 20}},
                                               kHeadsOption,
                                               kHeadSizeOption,
                                               {"out", "integer", "features of the input", "features of the result", {1, 1 << 24}},
                                               {"bias", "boolean", "false", "adds learned numbers to each projection"},
                                               kAttentionDropoutOption};

// The same queries for each example.
Value for_each_example(Value queries, Value x) {
  const Value zero = reshape(zeros_like(reduce_sum(x, {1, 2})), Shape{x.shape()[0], 1, 1});
  return reshape(queries, Shape{1, queries.shape()[0], queries.shape()[1]}) + zero;
}

std::vector<Value> build_learned_attention(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  require_steps(context, inputs[0]);
  const Value x = steps_first(inputs[0]);
  const int64_t channels = x.shape()[2], count = options.integer_in("queries", 1, 1 << 20);
  Attending how = Attending::read_heads(context, channels);
  how.dropout = options.number("attention_dropout");
  const bool bias = options.boolean("bias");
  const int64_t rows = how.heads * how.features;
  const Value learned = context.parameter("queries", Shape{count, channels}, ParameterRole::weight, channels, count, "xavier");
  const Value q = project(context, for_each_example(learned, x), {"q", rows, bias});
  const Value kv = project(context, x, {"kv", 2 * rows, bias, "xavier", rows});
  const Value seen = attend(context, how, q, part_of(kv, 2, 0, rows), part_of(kv, 2, rows, 2 * rows), context.mask(inputs[0]), "dropout");
  const Value y = features_first(project(context, seen, {"out", options.integer("out", channels), bias}));
  context.set_mask(y, {});
  return {y};
}

}  // namespace

extern const LayerDef layer_learned_attention;
const LayerDef layer_learned_attention{.name = "learned_attention",
                                       .doc = "Learned queries look at all steps: a sequence of any length becomes `queries` steps.",
                                       .example = R"({"type": "learned_attention", "queries": 3, "heads": 2, "out": 5})",
                                       .example_input = "[4, 5]",
                                       .schema = layer_schema(kLearnedAttentionOptions, kLearnedAttentionPositional),
                                       .build = build_learned_attention};

}  // namespace perigee
