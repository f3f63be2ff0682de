// Shared by the layers that attend. Sequences here are [N, steps, features].
#pragma once

#include <string>

#include "src/nn/layers/steps.h"

namespace perigee {

inline constexpr double kHiddenScore = -1e30;  // of a key that a query does not look at

// Rows of x [..., in] times a weight [out, in] that the layer learns, `name`_weight, with `name`_bias where it has biases.
struct Projection {
  std::string name;
  int64_t out = 0;
  bool bias = false;
  Json init = "xavier";
  int64_t fan_out = 0;  // 0: out; less where several matrices lie in one
};
struct Product {
  Value weight, bias;
  Value operator()(Value x) const;
};
Product learned_product(LayerContext& context, int64_t in, const Projection& projection);  // once for each name
Value project(LayerContext& context, Value x, const Projection& projection);

// How queries look at keys.
struct Attending {
  int64_t heads = 1, groups = 1, features = 0;  // groups: heads of keys and values
  int64_t value_features = 0;                   // of one head's values; 0: `features`
  bool causal = false, alibi = false, rotary = false, interleaved = false;
  bool aligned = false;  // causal: query i is at key i, also where there are fewer queries than keys
  int64_t window = 0;
  double scale = 0;  // of scores; 0: one over the root of `features`
  double dropout = 0, theta = 10000, fraction = 1;
  Value segments = {};  // of the steps that look at each other (LayerContext::segments)

  // Reads heads and head_size, which every such layer has; `channels` are those of the queries.
  static Attending read_heads(const LayerContext& context, int64_t channels);
  // Reads all options below.
  static Attending read(const LayerContext& context, int64_t channels);
};

inline constexpr Option kHeadsOption{"heads", "integer", "1", "parts that attend each by itself", {1, 4096}};
inline constexpr Option kKvHeadsOption{
    "kv_heads", "integer", "heads", "heads of keys and values; each serves heads / kv_heads of queries", {1, 4096}};
inline constexpr Option kHeadSizeOption{"head_size", "integer", "features / heads", "features of one head", {1, 65536}};
inline constexpr Option kCausalOption{"causal", "boolean", "false", "a step looks at no later one"};
inline constexpr Option kWindowOption{"window", "integer", "0", "a step looks only at steps less than so far away; 0: at all", {0, 1e9}};
inline constexpr Option kAttentionDropoutOption{
    "attention_dropout", "number", "0", "probability with which, in training, a step is not looked at", {0, 0.999999}};
inline constexpr Option kPositionsOption{
    "positions", "name", "none", "how steps know how far apart they are", {}, {"none", "rotary", "alibi"}};
inline constexpr Option kThetaOption{
    "rotary_theta", "number", "10000", "the slowest pair of features turns by about one over this a step", {1, 1e12}};
inline constexpr Option kFractionOption{"rotary_fraction", "number", "1", "share of a head's features that turn", {0, 1}};
inline constexpr Option kAttentionScaleOption{
    "scale", "number", "1 / sqrt(head_size)", "factor of the products of queries and keys; 1: Luong's attention", {1e-9, 1e9}};
inline constexpr Option kInterleavedOption{"rotary_interleaved", "boolean", "false", "pairs are neighbours, else one of each half"};

// Whether a layer with the options above may read a sequence step by step.
// Or it looks at a memory that a session has from its beginning.
bool looks_back_alone(const Config& options, std::span<const Value> inputs);

// Self-attention: queries, keys and values of all heads, one after another in `qkv` [N, T, (heads + 2 groups) features], as one product
// makes them. Gives [N, T, heads features]. In a session T is 1, and the step looks at
// those before by what the session keeps of them, under the name `purpose`.
Value attend_self(LayerContext& context, const Attending& how, Value qkv, Value mask, const std::string& purpose);
// Queries [N, S, heads features] look at keys and values [N, T, groups features].
Value attend(LayerContext& context, const Attending& how, Value q, Value k, Value v, Value mask, const std::string& purpose);

// Keys that queries look at beside those of the steps, and numbers that are added to their scores.
struct AddedScores {
  Value bias;          // [N, S, T] for all heads, or [N, heads, S, T]; empty: none
  Value keys, values;  // [rows, groups features]: more keys, the same for each example, which every query may look at; empty: none
  explicit operator bool() const { return bias || keys; }
};
// attend() with them: the scores are a matrix of their own, [N, heads, S, T].
Value attend_by_scores(LayerContext& context, const Attending& how, Value q, Value k, Value v, Value mask, const AddedScores& added,
                       const std::string& purpose);

}  // namespace perigee
