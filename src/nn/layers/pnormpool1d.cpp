#include "src/nn/layers/pool.h"

namespace perigee {
namespace {

constexpr Option kPnormpool1dOptions[] = {kKernelOption, kPoolStrideOption, kPaddingOption, {"p", "number", "2", "the power"}};

}  // namespace

extern const LayerDef layer_pnormpool1d;
const LayerDef layer_pnormpool1d{
    .name = "pnormpool1d",
    .stem = "pool",
    .doc = "(sum of |x|^p)^(1/p) of each window of a sequence.",
    .example = R"({"type": "pnormpool1d", "kernel": 3, "stride": 2, "padding": 1, "p": 3})",
    .example_input = "[2, 9]",
    .schema = layer_schema(kPnormpool1dOptions, kPoolPositional),
    .build = [](LayerContext& context, std::span<const Value> inputs) { return build_pool(context, inputs[0], 1, "pnorm"); }};

}  // namespace perigee
