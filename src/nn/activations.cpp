#include "src/nn/activations.h"

#include "src/graph/gelu.h"
#include "src/nn/layers/common.h"

namespace perigee {
namespace {

Value op(const char* name, Value x) { return x.graph().apply(name, {x}); }
Value op(const char* name, Value a, Value b) { return a.graph().apply(name, {a, b}); }
Value activations_number(Value like, double value) { return like.graph().constant(value, {like.dtype(), Shape()}); }
Value positive(Value x) { return greater(x, activations_number(x, 0)); }
Value clipped(Value x, double low, double high) { return minimum(maximum(x, activations_number(x, low)), activations_number(x, high)); }

Value softmax_like(const char* name, const Config& options, Value x) {
  Json attrs = Json::object();
  attrs.set("axis", options.integer("axis"));
  return x.graph().apply(name, {x}, std::move(attrs));
}

// x where positive, else alpha (exp(x) - 1). The minimum keeps exp of large x, which is not used, from overflowing.
Value exponential_linear(Value x, double alpha) { return where(positive(x), x, alpha * op("expm1", minimum(x, activations_number(x, 0)))); }

// Hendrycks and Gimpel 2016; the two approximations are theirs.
Value gelu(LayerContext&, const Config& options, Value x) {
  const std::string kind = options.choice("approximate");
  if (kind == "sigmoid") return x * sigmoid(1.702 * x);
  if (kind == "tanh") return gelu_tanh(x);
  return 0.5 * x * (1.0 + op("erf", 0.70710678118654752440 * x));
}

// 1.7159 tanh(2x/3) with a rational tanh, "A Study on Activation Functions" as Deeplearning4j has it (arXiv 1508.01292):
// tanh(y) ~ sign(y) (1 - 1 / (1 + |y| + y^2 + 1.41645 y^4)).
Value rational_tanh(LayerContext&, const Config&, Value x) {
  const Value y = (2.0 / 3.0) * x, a = abs(y), y2 = square(y);
  return 1.7159 * op("sign", y) * (1.0 - 1.0 / (1.0 + a + y2 + 1.41645 * square(y2)));
}

// Slopes drawn in training, their mean otherwise. Xu et al. 2015.
Value randomized_relu(LayerContext& context, const Config& options, Value x) {
  const double low = options.number("low", 1.0 / 8), high = options.number("high", 1.0 / 3);
  Value slope = activations_number(x, (low + high) / 2);
  if (context.training()) {
    Json attrs = Json::object();
    attrs.set("stream", context.random_stream("rrelu"));
    attrs.set("low", low);
    attrs.set("high", high);
    slope = x.graph().apply("random_uniform", {x}, std::move(attrs));
  }
  return where(positive(x), x, slope * x);
}

// One learned slope per channel. He et al. 2015.
Value parametric_relu(LayerContext& context, const Config& options, Value x) {
  const int64_t channels = x.rank() > 1 ? x.shape()[1] : 1;
  const Value alpha = context.parameter("alpha", Shape{channels}, ParameterRole::gain, channels, channels, options.number("initial"));
  return where(positive(x), x, (x.rank() > 1 ? per_channel(alpha, x.rank()) : alpha) * x);
}

#define PERIGEE_FORMULA(expression) [](LayerContext&, const Config&, Value x) -> Value { return expression; }
#define PERIGEE_FORMULA_WITH(expression) [](LayerContext&, const Config& options, Value x) -> Value { return expression; }

constexpr Option kAxis[] = {{"axis", "integer", "1", "dimension of the sum", {-8, 8}}};
constexpr Option kElu[] = {{"alpha", "number", "1", "what it falls to"}};
constexpr Option kGelu[] = {{"approximate", "name", "none", "how it is computed", {}, {"none", "tanh", "sigmoid"}}};
constexpr Option kLeaky[] = {{"alpha", "number", "0.01", "slope below 0"}};
constexpr Option kPrelu[] = {{"initial", "number", "0.25", "first slope below 0"}};
constexpr Option kRandomized[] = {{"low", "number", "1/8", "smallest slope below 0", {0, 1}},
                                  {"high", "number", "1/3", "largest slope below 0", {0, 1}}};
constexpr Option kThreshold[] = {{"theta", "number", "1", "what it must be above"}};

const ActivationDef kActivations[] = {
    {"cube", "x^3", PERIGEE_FORMULA(x* square(x))},
    {"elu",
     "x, or alpha (exp(x) - 1) below 0; alpha = 1",
     PERIGEE_FORMULA_WITH(exponential_linear(x, options.number("alpha"))),
     {.options = kElu}},
    {"gelu", "x Phi(x); approximate = \"none\", \"tanh\" or \"sigmoid\"", gelu, {.options = kGelu}},
    {"hard_sigmoid", "0.2 x + 0.5, within 0 and 1", PERIGEE_FORMULA(clipped(0.2 * x + 0.5, 0, 1))},
    {"hard_swish", "x times (x / 6 + 0.5 within 0 and 1)", PERIGEE_FORMULA(x* clipped(x / 6.0 + 0.5, 0, 1))},
    {"hard_tanh", "x, within -1 and 1", PERIGEE_FORMULA(clipped(x, -1, 1))},
    {"identity", "x", PERIGEE_FORMULA(x)},
    {"leaky_relu",
     "x, or alpha x below 0; alpha = 0.01",
     PERIGEE_FORMULA_WITH(where(positive(x), x, options.number("alpha") * x)),
     {.options = kLeaky}},
    {"log_softmax", "log of softmax; axis = 1", PERIGEE_FORMULA_WITH(softmax_like("log_softmax", options, x)), {.options = kAxis}},
    {"mish", "x tanh(softplus(x))", PERIGEE_FORMULA(x* tanh(softplus(x)))},
    {"prelu", "x, or a learned multiple of x below 0, one per channel; initial = 0.25", parametric_relu, {.options = kPrelu}},
    {"rational_tanh", "1.7159 tanh(2 x / 3), by a rational function", rational_tanh},
    {"rectified_tanh", "tanh(x), or 0 below 0", PERIGEE_FORMULA(relu(tanh(x)))},
    {"relu", "x, or 0 below 0", PERIGEE_FORMULA(relu(x))},
    {"relu6", "x, within 0 and 6", PERIGEE_FORMULA(clipped(x, 0, 6))},
    {"rrelu",
     "x, or a random multiple of x below 0 (in training; else the mean); low = 1/8, high = 1/3",
     randomized_relu,
     {.options = kRandomized}},
    {"selu", "elu scaled so that mean 0 and variance 1 are kept",
     PERIGEE_FORMULA(1.0507009873554805 * exponential_linear(x, 1.6732632423543772))},
    {"sigmoid", "1 / (1 + exp(-x))", PERIGEE_FORMULA(sigmoid(x))},
    {"softmax",
     "exp(x) / sum of exp(x) over the channels; axis = 1",
     PERIGEE_FORMULA_WITH(softmax_like("softmax", options, x)),
     {.options = kAxis}},
    {"softplus", "log(1 + exp(x))", PERIGEE_FORMULA(softplus(x))},
    {"softsign", "x / (1 + |x|)", PERIGEE_FORMULA(x / (1.0 + abs(x)))},
    {"swish", "x sigmoid(x)", PERIGEE_FORMULA(x* sigmoid(x))},
    {"tanh", "tanh(x)", PERIGEE_FORMULA(tanh(x))},
    {"thresholded_relu",
     "x above theta, else 0; theta = 1",
     PERIGEE_FORMULA_WITH(where(op("greater", x, activations_number(x, options.number("theta"))), x, activations_number(x, 0))),
     {.options = kThreshold}},
};

#undef PERIGEE_FORMULA
#undef PERIGEE_FORMULA_WITH

}  // namespace

std::span<const ActivationDef> all_activations() { return kActivations; }

Value apply_activation(LayerContext& context, const Json& activation, Value x) {
  Json object = activation;
  if (activation.is_string()) {
    object = Json::object();
    object.set("type", activation);
  }
  const Config options(object, context.options().where() + ": activation");
  const std::string type = options.string("type");
  const ActivationDef* def = nullptr;
  std::vector<std::string> known;
  for (const ActivationDef& each : kActivations) {
    known.push_back(each.name);
    if (type == each.name) def = &each;
  }
  if (type == "softmax" && x.rank() == 2 && x.shape()[1] == 1)
    context.fail("softmax over a single output is always 1", "", "",
                 "give the layer an output for each class, or take activation = \"sigmoid\", or none for numbers");
  if (def == nullptr) context.fail("there is no activation '" + type.substr(0, 100) + "'", "", "", nearest_hint(type, known));
  return def->build(context, options.with(def->schema), x);
}

}  // namespace perigee
