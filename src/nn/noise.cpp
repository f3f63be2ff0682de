#include "src/nn/noise.h"

namespace perigee {
namespace {

Json stream(LayerContext& context, const std::string& purpose, const char* per) {
  Json attrs = Json::object();
  attrs.set("stream", context.random_stream(purpose));
  attrs.set("per", per);
  return attrs;
}

}  // namespace

std::span<const NamedSchema> weight_noise_kinds() {
  static constexpr Option kBias{"bias", "boolean", "false", "biases too"};
  static constexpr Option kDropConnect[] = {{"rate", "number", "0.5", "share of the weights that is dropped", {0, 0.999999}}, kBias};
  static constexpr Option kGaussian[] = {{"stddev", "number", "0.01", "standard deviation", {0, 1e6}},
                                         {"multiply", "boolean", "false", "the noise is a factor around 1"},
                                         kBias};
  static constexpr NamedSchema kKinds[] = {{"drop_connect", "Drops weights in training (Wan et al. 2013).", {.options = kDropConnect}},
                                           {"gaussian", "Adds normal noise to weights in training.", {.options = kGaussian}}};
  return kKinds;
}

Value uniform_like(LayerContext& context, const std::string& purpose, Value x) {
  return x.graph().apply("random_uniform", {x}, stream(context, purpose, "example"));
}

Value normal_like(LayerContext& context, const std::string& purpose, Value x, double mean, double stddev) {
  Json attrs = stream(context, purpose, "example");
  attrs.set("mean", mean);
  attrs.set("stddev", stddev);
  return x.graph().apply("random_normal", {x}, std::move(attrs));
}

Value dropped(Value x, Value draws, double rate) {
  Graph& graph = x.graph();
  const Value kept = greater_equal(draws, graph.constant(rate, {x.dtype(), Shape()}));
  return where(kept, x * (1 / (1 - rate)), graph.constant(0, {x.dtype(), Shape()}));
}

Value drop_input(LayerContext& context, Value x, size_t input) {
  const Json* option = context.options().raw("dropout");
  if (option == nullptr || option->is_null()) return x;
  const std::string label = "dropout" + std::to_string(input + 1);
  if (!option->is_number()) return context.sublayer(*option, label, std::span(&x, 1)).at(0);
  const double rate = context.options().number_in("dropout", 0, 0.999999, 0);
  return rate == 0 ? x : dropped(x, uniform_like(context, label, x), rate);
}

// DropConnect: Wan et al. 2013.
Value noisy_parameter(LayerContext& context, Value parameter, ParameterRole role, const std::string& name) {
  if (role == ParameterRole::gain || !context.options().has("weight_noise")) return parameter;
  const Config options = with_kind(context.options().object("weight_noise"), weight_noise_kinds());
  const std::string type = options.string("type");
  const bool with_bias = options.boolean("bias");
  const double rate = type == "drop_connect" ? options.number("rate") : 0;
  const double stddev = type == "gaussian" ? options.number("stddev") : 0;
  const bool multiply = type == "gaussian" && options.boolean("multiply");
  if (role == ParameterRole::bias && !with_bias) return parameter;
  Json attrs = stream(context, "weight_noise/" + name, "step");
  Graph& graph = context.graph();
  if (type == "drop_connect") return dropped(parameter, graph.apply("random_uniform", {parameter}, std::move(attrs)), rate);
  attrs.set("mean", multiply ? 1.0 : 0.0);
  attrs.set("stddev", stddev);
  const Value noise = graph.apply("random_normal", {parameter}, std::move(attrs));
  return multiply ? parameter * noise : parameter + noise;
}

}  // namespace perigee
