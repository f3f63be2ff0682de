#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr Option kPreluOptions[] = {
    {"shared_axes", "list of integers", "all but the channels", "dimensions along which one slope is used; they count from 1"},
    {"initial", "number", "0.25", "initial slope"}};

std::vector<Value> build_prelu(LayerContext& context, std::span<const Value> inputs) {
  const Value x = inputs[0];
  std::vector<int64_t> shared = context.options().integer_list("shared_axes");
  if (!context.options().has("shared_axes"))
    for (int i = 2; i < x.rank(); ++i) shared.push_back(i);
  std::vector<int64_t> dims = x.shape().vector();
  dims.erase(dims.begin());
  for (const int64_t axis : shared) {
    if (axis < 1 || axis >= x.rank())
      context.options().fail("shared_axes", "has a dimension that is not there", std::to_string(axis),
                             "1 to " + std::to_string(x.rank() - 1));
    dims[static_cast<size_t>(axis - 1)] = 1;
  }
  const int64_t fan = product(Shape(dims));
  const Value alpha = context.parameter("alpha", Shape(dims), ParameterRole::gain, fan, fan, context.options().number("initial", 0.25));
  return {where(greater(x, context.graph().constant(0, {x.dtype(), Shape()})), x, alpha * x)};
}

}  // namespace

extern const LayerDef layer_prelu;
const LayerDef layer_prelu{.name = "prelu",
                           .doc = "x where positive, else a learned multiple of x. He et al. 2015.",
                           .example = R"({"type": "prelu", "shared_axes": [2], "initial": 0.1})",
                           .example_input = "[2, 3, 4]",
                           .schema = layer_schema(kPreluOptions),
                           .build = build_prelu};

}  // namespace perigee
