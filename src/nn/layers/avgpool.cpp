#include "src/nn/layers/pool.h"

namespace perigee {
namespace {

constexpr Option kAvgpoolOptions[] = {
    kKernelOption, kPoolStrideOption, kPaddingOption, {"count_include_pad", "boolean", "false", "padding counts as zeros in the mean"}};

}  // namespace

extern const LayerDef layer_avgpool;
const LayerDef layer_avgpool{
    .name = "avgpool",
    .stem = "pool",
    .doc = "The mean of each window.",
    .example = R"({"type": "avgpool", "kernel": [3, 2], "stride": 2, "padding": [1, 0]})",
    .example_input = "[2, 7, 6]",
    .schema = layer_schema(kAvgpoolOptions, kPoolPositional),
    .build = [](LayerContext& context, std::span<const Value> inputs) { return build_pool(context, inputs[0], 2, "average"); }};

}  // namespace perigee
