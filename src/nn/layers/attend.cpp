#include "src/nn/layers/attend.h"

#include <algorithm>

namespace perigee {
namespace {

Value split_heads(Value x, int64_t heads) { return reshape(x, Shape{x.shape()[0], x.shape()[1], heads, x.shape()[2] / heads}); }

Value join_heads(Value x) { return reshape(x, Shape{x.shape()[0], x.shape()[1], x.shape()[2] * x.shape()[3]}); }

Json attributes(LayerContext& context, const Attending& how, bool aligned, const std::string& purpose) {
  Json attrs = Json::object();
  if (how.causal) attrs.set("causal", aligned ? "upper_left" : "lower_right");
  if (how.window > 0) attrs.set("window", how.window);
  if (how.scale > 0) attrs.set("scale", how.scale);
  if (how.alibi) attrs.set("alibi", true);
  if (how.dropout > 0 && context.training()) {
    attrs.set("dropout", how.dropout);
    attrs.set("stream", context.random_stream(purpose));
  }
  return attrs;
}

// The mask that the op gets: that of the steps, or the numbers of their sequences where several lie in a row.
Value seen_steps(const Attending& how, Value mask, Json* attrs) {
  if (!how.segments) return mask;
  attrs->set("segments", true);
  return mask ? how.segments * mask : how.segments;
}

// The first `heads` heads turn.
Value turned(LayerContext& context, const Attending& how, Value x, int64_t heads) {
  if (!how.rotary) return x;
  const int64_t features = x.shape()[3], width = static_cast<int64_t>(static_cast<double>(features) * how.fraction) / 2 * 2;
  if (features < 2)
    context.fail("rotary positions turn pairs of features", "heads of 1 feature", "at least 2", "take fewer heads, or give head_size");
  if (width == 0)
    context.options().fail("rotary_fraction", "leaves no pair of features to turn", shown(*context.options().raw("rotary_fraction")),
                           "a share that makes at least 2 of " + std::to_string(features));
  Json attrs = Json::object();
  attrs.set("theta", how.theta);
  attrs.set("width", width);
  attrs.set("heads", heads);
  attrs.set("interleaved", how.interleaved);
  const Value before = context.steps_before();
  const Value operands[] = {x, before};
  return x.graph().apply("rotary", std::span(operands, before ? 2 : 1), std::move(attrs));
}

// In a session: the heads of the step at hand look at its own keys and values, and at those of the steps before, which the session keeps.
Value attend_step(LayerContext& context, const Attending& how, Value heads, const std::string& name) {
  const int64_t whole = context.steps_at_once(false), slots = how.window > 0 ? std::min(how.window, whole) : whole;
  if (slots != how.window) context.steps_at_once(true);
  const Shape kept{2 * how.groups, how.features};
  const Value past = context.recent(name, kept, slots);
  context.carry_on(name, reshape(part_of(heads, 2, how.heads, how.heads + 2 * how.groups), Shape{heads.shape()[0], kept[0], kept[1]}));
  Json attrs = Json::object();
  attrs.set("kv_heads", how.groups);
  if (how.alibi) attrs.set("alibi", true);
  if (how.scale > 0) attrs.set("scale", how.scale);
  return context.graph().apply("attention_step", {heads, past, context.steps_before()}, std::move(attrs));
}

}  // namespace

bool looks_back_alone(const Config& options, std::span<const Value> inputs) {
  if (inputs.size() == 1) return options.boolean("causal");
  return inputs[0] && std::none_of(inputs.begin() + 1, inputs.end(), [](const Value& memory) { return static_cast<bool>(memory); });
}

Value Product::operator()(Value x) const { return linear(x, weight, bias); }

Product learned_product(LayerContext& context, int64_t in, const Projection& projection) {
  const int64_t fan_out = projection.fan_out > 0 ? projection.fan_out : projection.out;
  const std::string stem = projection.name.empty() ? "" : projection.name + "_";
  Product product{
      .weight = context.parameter(stem + "weight", Shape{projection.out, in}, ParameterRole::weight, in, fan_out, projection.init),
      .bias = {}};
  if (projection.bias) product.bias = context.parameter(stem + "bias", Shape{projection.out}, ParameterRole::bias, in, fan_out, 0.0);
  return product;
}

Value project(LayerContext& context, Value x, const Projection& projection) {
  return learned_product(context, x.shape().at(-1), projection)(x);
}

Attending Attending::read_heads(const LayerContext& context, int64_t channels) {
  const Config& options = context.options();
  Attending how;
  how.heads = how.groups = options.integer("heads", 1);
  how.features = options.integer("head_size", channels / how.heads);
  if (!options.has("head_size") && channels % how.heads != 0)
    options.fail("heads", "do not divide the features", std::to_string(how.heads), "a divisor of " + std::to_string(channels),
                 "or give head_size");
  return how;
}

Attending Attending::read(const LayerContext& context, int64_t channels) {
  const Config& options = context.options();
  Attending how = read_heads(context, channels);
  how.groups = options.integer("kv_heads", how.heads);
  if (how.heads % how.groups != 0)
    options.fail("kv_heads", "do not divide the heads", std::to_string(how.groups), "a divisor of " + std::to_string(how.heads));
  how.causal = options.boolean("causal");
  how.window = options.integer("window", 0);
  how.dropout = options.number("attention_dropout", 0);
  how.scale = options.number("scale", 0);
  const std::string positions = options.choice("positions");
  how.alibi = positions == "alibi";
  how.rotary = positions == "rotary";
  how.theta = options.number("rotary_theta");
  how.fraction = options.number("rotary_fraction");
  how.interleaved = options.boolean("rotary_interleaved");
  return how;
}

Value attend_self(LayerContext& context, const Attending& how, Value qkv, Value mask, const std::string& purpose) {
  const Value heads = turned(context, how, split_heads(qkv, how.heads + 2 * how.groups), how.heads + how.groups);
  if (context.steps_before()) return join_heads(attend_step(context, how, heads, purpose));
  Json attrs = attributes(context, how, true, purpose);
  attrs.set("kv_heads", how.groups);
  const Value operands[] = {heads, Value(), Value(), seen_steps(how, mask, &attrs)};
  return join_heads(context.graph().apply("attention", operands, std::move(attrs)));
}

Value attend(LayerContext& context, const Attending& how, Value q, Value k, Value v, Value mask, const std::string& purpose) {
  Json attrs = attributes(context, how, how.aligned || q.shape()[1] == k.shape()[1], purpose);
  const Value operands[] = {turned(context, how, split_heads(q, how.heads), how.heads),
                            turned(context, how, split_heads(k, how.groups), how.groups), split_heads(v, how.groups),
                            seen_steps(how, mask, &attrs)};
  return join_heads(context.graph().apply("attention", operands, std::move(attrs)));
}

}  // namespace perigee
