#include <cmath>

#include "src/nn/layers/attend.h"
#include "src/nn/layers/normalize.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

constexpr Option kTransformerOptions[] = {
    {"layers", "integer", "1", "blocks in a row", {1, 1024}},
    kHeadsOption,
    kKvHeadsOption,
    kHeadSizeOption,
    {"hidden", "integer", "4 times the features", "features inside of each block's dense part", {1, 1 << 24}},
    {"norm", "name", "pre", "normalises what each part takes, or the sum behind it", {}, {"pre", "post"}},
    {"rms", "boolean", "false", "normalises by the root of the mean square alone"},
    {"epsilon", "number", "1e-5", "added to variances", {0, 1}},
    {"last_norm", "boolean", "true", "with norm = \"pre\": normalises the result"},
    {"parallel",
     "name",
     "none",
     "attention and the dense part take the same numbers and are added together: behind one norm as GPT-J's, or one each as GPT-NeoX's",
     {},
     {"none", "one_norm", "two_norms"}},
    {"activation", "activation", "gelu", "of the dense part"},
    {"gated", "boolean", "false", "the dense part multiplies the activation by a second product: SwiGLU with activation = \"swish\""},
    {"bias", "boolean", "true", "adds learned numbers to each product"},
    kCausalOption,
    kAttentionScaleOption,
    {"cross", "boolean", "false", "each block also looks at a second input, the memory"},
    kAttentionDropoutOption,
    {"residual_dropout", "number", "0", "probability with which, in training, a number of a part's result is left out", {0, 0.999999}},
    kWindowOption,
    kPositionsOption,
    kThetaOption,
    kFractionOption,
    kInterleavedOption};

Json normal(double stddev) {
  Json init = Json::object();
  init.set("type", "normal");
  init.set("stddev", stddev);
  return init;
}

// Blocks of one layer: values are [N, steps, features].
class Blocks {
 public:
  Blocks(LayerContext& context, Value x, Value memory, Value segments)
      : context_(context),
        options_(context.options()),
        how_(Attending::read(context, x.shape()[2])),
        channels_(x.shape()[2]),
        hidden_(options_.integer("hidden", 4 * channels_)),
        bias_(options_.boolean("bias")),
        gated_(options_.boolean("gated")),
        pre_(options_.choice("norm") == "pre"),
        parallel_(options_.choice("parallel")),
        memory_(memory) {
    how_.segments = segments;
    if (parallel_ != "none" && (!pre_ || memory))
      options_.fail("parallel", memory ? "has no place for a memory" : "goes with a norm in front", Json(parallel_).dump(), "none",
                    memory ? "leave cross out" : "leave norm out");
    const Json* activation = options_.raw("activation");
    activation_ = activation != nullptr ? *activation : Json("gelu");
    // Radford et al. 2019: what is added to the sum is smaller where there are more parts.
    const double parts = static_cast<double>(options_.integer("layers") * (memory ? 3 : 2));
    inner_ = normal(0.02);
    added_ = normal(0.02 / std::sqrt(parts));
  }

  Value run(Value x, Value mask, Value memory_mask) {
    const int64_t layers = options_.integer("layers");
    for (int64_t i = 1; i <= layers; ++i) {
      block_ = "block" + std::to_string(i) + ".";
      if (parallel_ != "none") {
        x = side_by_side(x, mask);
        continue;
      }
      x = part(x, "norm1", [&](Value in) { return self(in, mask); });
      if (memory_) x = part(x, "cross_norm", [&](Value in) { return cross(in, memory_mask); });
      x = part(x, "norm2", [&](Value in) { return dense(in); });
    }
    block_.clear();
    return pre_ && options_.boolean("last_norm") ? normalized(x, "norm") : x;
  }

 private:
  template <class F>
  Value part(Value x, const std::string& norm, F f) {
    return pre_ ? x + f(normalized(x, norm)) : normalized(x + f(x), norm);
  }

  Value side_by_side(Value x, Value mask) {
    const Value first = normalized(x, "norm1"), second = parallel_ == "one_norm" ? first : normalized(x, "norm2");
    return x + self(first, mask) + dense(second);
  }

  Value normalized(Value x, const std::string& name) {
    const bool rms = options_.boolean("rms");
    return normalize_rows(context_, x, {block_ + name, !rms, true, !rms && bias_, options_.number("epsilon")});
  }

  Value product(Value x, const std::string& name, int64_t out, const Json& init) {
    return project(context_, x, {block_ + name, out, bias_, init});
  }

  // The last product of a part.
  Value result(Value x, const std::string& name) {
    const Value y = product(x, name, channels_, added_);
    const double rate = options_.number("residual_dropout");
    return rate > 0 && context_.training() ? dropped(y, uniform_like(context_, block_ + name, y), rate) : y;
  }

  Value self(Value x, Value mask) {
    const Value qkv = product(x, "attention_in", (how_.heads + 2 * how_.groups) * how_.features, inner_);
    return result(attend_self(context_, how_, qkv, mask, block_ + "attention"), "attention_out");
  }

  Value cross(Value x, Value mask) {
    Attending how = how_;
    how.causal = how.rotary = how.alibi = false;
    how.window = 0;
    const Value q = product(x, "cross_q", how.heads * how.features, inner_),
                k = product(memory_, "cross_k", how.groups * how.features, inner_),
                v = product(memory_, "cross_v", how.groups * how.features, inner_);
    return result(attend(context_, how, q, k, v, mask, block_ + "cross"), "cross_out");
  }

  Value dense(Value x) {
    const Value inside = context_.activation(activation_, product(x, gated_ ? "gate" : "up", hidden_, inner_));
    return result(gated_ ? inside * product(x, "up", hidden_, inner_) : inside, "down");
  }

  LayerContext& context_;
  const Config& options_;
  Attending how_;
  const int64_t channels_, hidden_;
  const bool bias_, gated_, pre_;
  const std::string parallel_;
  const Value memory_;
  Json activation_, inner_, added_;
  std::string block_;
};

StepUse transformer_step_use(const Config& options, std::span<const Value> inputs) {
  return looks_back_alone(options, inputs) && options.boolean("causal") ? StepUse::each : StepUse::mixed;
}

std::vector<Value> build_transformer(LayerContext& context, std::span<const Value> inputs) {
  for (const Value& input : inputs) require_steps(context, input);
  const bool cross = context.options().boolean("cross");
  if (cross != (inputs.size() == 2))
    context.fail(cross ? "has no memory to look at" : "has a memory that it does not look at", std::to_string(inputs.size()) + " inputs",
                 cross ? "two inputs: a sequence and its memory" : "one input", cross ? "leave cross out" : "write cross = true");
  const Value x = steps_first(inputs[0]), memory = cross ? steps_first(inputs[1]) : Value();
  Blocks blocks(context, x, memory, cross ? Value() : context.segments(inputs[0]));
  const Value y = blocks.run(x, context.mask(inputs[0]), cross ? context.mask(inputs[1]) : Value());
  return {features_first(masked_rows(y, context.mask(inputs[0])))};
}

}  // namespace

extern const LayerDef layer_transformer;
const LayerDef layer_transformer{
    .name = "transformer",
    .doc = "Blocks of attention and a dense part, each added to what it takes, for sequences of features. Vaswani et al. 2017.",
    .example = R"({"type": "transformer", "layers": 2, "heads": 2, "hidden": 6, "causal": true, "activation": "swish", "gated": true})",
    .example_input = "[4, 3]",
    .schema = layer_schema(kTransformerOptions),
    .max_inputs = 2,
    .build = build_transformer,
    .step_use = transformer_step_use};

}  // namespace perigee
