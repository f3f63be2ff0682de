#include "src/nn/layers/normalize.h"

#include "src/nn/layers/steps.h"

namespace perigee {

Value normalize_rows(LayerContext& context, Value x, const Norm& norm) {
  const int64_t k = x.shape().at(-1);
  const std::string stem = norm.name.empty() ? "" : norm.name + "_";
  const Value gamma = norm.scale ? context.parameter(stem + "weight", Shape{k}, ParameterRole::gain, k, k, 1.0) : Value();
  const Value beta = norm.shift ? context.parameter(stem + "bias", Shape{k}, ParameterRole::bias, k, k, 0.0) : Value();
  Json attrs = Json::object();
  attrs.set("epsilon", norm.epsilon);
  if (!norm.centre) attrs.set("centre", false);
  const Value operands[] = {x, gamma, beta};
  return context.graph().apply("layer_norm", operands, std::move(attrs));
}

Value normalize(LayerContext& context, Value x, const Norm& norm) {
  const std::string over = context.options().choice("over");
  if (x.rank() < 2) context.fail("needs features to normalise", "a single number", "", "give each example a row of features");
  if (over != "channels" || x.rank() < 3) refuse_mask(context, context.mask(x), "normalise each step alone: over = \"channels\"");
  std::vector<int64_t> order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != 1) order.push_back(i);
  order.push_back(1);
  const bool moved = over == "channels" && x.rank() > 2;
  Value y = normalize_rows(context, over == "features" ? flatten(x) : moved ? transpose(x, order) : x, norm);
  if (moved) {
    std::vector<int64_t> back{0, x.rank() - 1};
    for (int i = 1; i < x.rank() - 1; ++i) back.push_back(i);
    y = transpose(y, back);
  }
  return reshape(y, x.shape());
}

}  // namespace perigee
