#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kOcnnPositional[] = {"hidden"};
constexpr Option kOcnnOptions[] = {{"hidden", "integer", nullptr, "units between the features and the score", {1, 1 << 20}},
                                   {"nu", "number", "0.04", "share of the training examples that may lie outside", {1e-6, 1}},
                                   {"weight_penalty", "number", "0.5", "factor of the squared weights", {0, 1e9}},
                                   kActivationOption};

// Chalapathy et al. 2018, arXiv:1802.06360, eq. 3: 1/2 |w|^2 + 1/2 |V|^2 + 1/nu mean max(0, r - y) - r, with y = w' g(V x). The r that makes
// this smallest is the nu-quantile of y, where the slope by r is 0; here it is a parameter that descends to it with the others.
std::vector<Value> build_ocnn(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const Value x = flatten(inputs[0]);
  const int64_t n = x.shape()[0], in = x.shape()[1], hidden = options.integer("hidden");
  const Value v = context.parameter("weight", Shape{hidden, in}, ParameterRole::weight, in, hidden, Json("xavier"));
  const Value w = context.parameter("score", Shape{1, hidden}, ParameterRole::gain, hidden, 1, Json("xavier"));
  const Value r = context.parameter("radius", Shape{1}, ParameterRole::gain, 1, 1, 0.1);
  const Value above = linear(finish(context, linear(x, v)), w) - r;  // [N, 1]
  Value loss = reshape(relu(-above), Shape{n}) / options.number("nu") - r;
  if (context.training())
    if (const double penalty = options.number("weight_penalty"); penalty > 0)
      loss = loss + (reduce_sum(square(v), {0, 1}) + reduce_sum(square(w), {0, 1})) * penalty;
  context.add_loss(loss);
  return {above};
}

}  // namespace

extern const LayerDef layer_ocnn;
const LayerDef layer_ocnn{
    .name = "ocnn",
    .doc =
        "A one-class network (Chalapathy et al. 2018): learns from examples of one kind, and gives a number that is below 0 where an "
        "example is unlike them, as a share `nu` of the training examples is. Adds its loss itself: the job's is \"none\".",
    .example = R"({"type": "ocnn", "hidden": 4, "nu": 0.3, "activation": "sigmoid"})",
    .example_input = "[5]",
    .schema = layer_schema(kOcnnOptions, kOcnnPositional),
    .build = build_ocnn};

}  // namespace perigee
