#include "src/nn/layers/pool.h"

namespace perigee {
namespace {

constexpr Option kMaxpoolOptions[] = {kKernelOption, kPoolStrideOption, kPaddingOption, kDilationOption};

}  // namespace

extern const LayerDef layer_maxpool;
const LayerDef layer_maxpool{
    .name = "maxpool",
    .stem = "pool",
    .doc = "The largest value in each window.",
    .example = R"({"type": "maxpool", "kernel": [3, 2], "stride": 2, "padding": [1, 0]})",
    .example_input = "[2, 7, 6]",
    .schema = layer_schema(kMaxpoolOptions, kPoolPositional),
    .build = [](LayerContext& context, std::span<const Value> inputs) { return build_pool(context, inputs[0], 2, "max"); }};

}  // namespace perigee
