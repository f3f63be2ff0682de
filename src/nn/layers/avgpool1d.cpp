#include "src/nn/layers/pool.h"

namespace perigee {
namespace {

constexpr Option kAvgpool1dOptions[] = {
    kKernelOption, kPoolStrideOption, kPaddingOption, {"count_include_pad", "boolean", "false", "padding counts as zeros in the mean"}};

}  // namespace

extern const LayerDef layer_avgpool1d;
const LayerDef layer_avgpool1d{
    .name = "avgpool1d",
    .stem = "pool",
    .doc = "The mean of each window of a sequence.",
    .example = R"({"type": "avgpool1d", "kernel": 3, "stride": 2, "padding": 1})",
    .example_input = "[2, 9]",
    .schema = layer_schema(kAvgpool1dOptions, kPoolPositional),
    .build = [](LayerContext& context, std::span<const Value> inputs) { return build_pool(context, inputs[0], 1, "average"); }};

}  // namespace perigee
