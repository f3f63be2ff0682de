#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kPositional[] = {"offset"};
constexpr Option kOptions[] = {{"offset", "number", nullptr, "the number that is added"}};

std::vector<Value> build(LayerContext& context, std::span<const Value> inputs) { return {inputs[0] + context.options().number("offset")}; }

}  // namespace

extern const LayerDef layer_shift;
const LayerDef layer_shift{.name = "shift",
                           .doc = "Adds a fixed number.",
                           .example = R"({"type": "shift", "offset": 2})",
                           .example_input = "[4]",
                           .schema = layer_schema(kOptions, kPositional),
                           .build = build,
                           .step_use = each_step};

}  // namespace perigee
