#include "src/nn/layers/pool.h"

namespace perigee {
namespace {

constexpr Option kPnormpoolOptions[] = {kKernelOption, kPoolStrideOption, kPaddingOption, {"p", "number", "2", "the power"}};

}  // namespace

extern const LayerDef layer_pnormpool;
const LayerDef layer_pnormpool{
    .name = "pnormpool",
    .stem = "pool",
    .doc = "(sum of |x|^p)^(1/p) of each window.",
    .example = R"({"type": "pnormpool", "kernel": [3, 2], "stride": 2, "padding": [1, 0], "p": 3})",
    .example_input = "[2, 7, 6]",
    .schema = layer_schema(kPnormpoolOptions, kPoolPositional),
    .build = [](LayerContext& context, std::span<const Value> inputs) { return build_pool(context, inputs[0], 2, "pnorm"); }};

}  // namespace perigee
