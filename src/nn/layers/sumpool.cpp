#include "src/nn/layers/pool.h"

namespace perigee {
namespace {

constexpr Option kSumpoolOptions[] = {kKernelOption, kPoolStrideOption, kPaddingOption};

}  // namespace

extern const LayerDef layer_sumpool;
const LayerDef layer_sumpool{
    .name = "sumpool",
    .stem = "pool",
    .doc = "The sum of each window.",
    .example = R"({"type": "sumpool", "kernel": [3, 2], "stride": 2, "padding": [1, 0]})",
    .example_input = "[2, 7, 6]",
    .schema = layer_schema(kSumpoolOptions, kPoolPositional),
    .build = [](LayerContext& context, std::span<const Value> inputs) { return build_pool(context, inputs[0], 2, "sum"); }};

}  // namespace perigee
