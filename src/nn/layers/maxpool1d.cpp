#include "src/nn/layers/pool.h"

namespace perigee {
namespace {

constexpr Option kMaxpool1dOptions[] = {kKernelOption, kPoolStrideOption, kPaddingOption, kDilationOption};

}  // namespace

extern const LayerDef layer_maxpool1d;
const LayerDef layer_maxpool1d{
    .name = "maxpool1d",
    .stem = "pool",
    .doc = "The largest value in each window of a sequence.",
    .example = R"({"type": "maxpool1d", "kernel": 3, "stride": 2, "padding": 1})",
    .example_input = "[2, 9]",
    .schema = layer_schema(kMaxpool1dOptions, kPoolPositional),
    .build = [](LayerContext& context, std::span<const Value> inputs) { return build_pool(context, inputs[0], 1, "max"); }};

}  // namespace perigee
