#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kSequentialPositional[] = {"layers"};
constexpr Option kSequentialOptions[] = {{"layers", "list of layers", nullptr, "in order"},
                                         {"defaults", "table of options", "none", "for what these layers leave out"}};

std::vector<Value> build_sequential(LayerContext& context, std::span<const Value> inputs) {
  return context.network(context.options().json(), "", inputs);
}

}  // namespace

extern const LayerDef layer_sequential;
const LayerDef layer_sequential{
    .name = "sequential",
    .stem = "block",
    .doc = "Layers one after the other, as one layer.",
    .example = R"({"type": "sequential", "layers": [{"type": "dense", "out": 4, "activation": "tanh"}, {"type": "dense", "out": 2}]})",
    .example_input = "[3]",
    .schema = layer_schema(kSequentialOptions, kSequentialPositional),
    .max_inputs = -1,
    .any_dtype = true,
    .build = build_sequential,
    .step_use = each_step};

}  // namespace perigee
