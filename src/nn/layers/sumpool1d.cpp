#include "src/nn/layers/pool.h"

namespace perigee {
namespace {

constexpr Option kSumpool1dOptions[] = {kKernelOption, kPoolStrideOption, kPaddingOption};

}  // namespace

extern const LayerDef layer_sumpool1d;
const LayerDef layer_sumpool1d{
    .name = "sumpool1d",
    .stem = "pool",
    .doc = "The sum of each window of a sequence.",
    .example = R"({"type": "sumpool1d", "kernel": 3, "stride": 2, "padding": 1})",
    .example_input = "[2, 9]",
    .schema = layer_schema(kSumpool1dOptions, kPoolPositional),
    .build = [](LayerContext& context, std::span<const Value> inputs) { return build_pool(context, inputs[0], 1, "sum"); }};

}  // namespace perigee
