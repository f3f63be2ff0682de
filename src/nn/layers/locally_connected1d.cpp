#include "src/nn/layers/local.h"

namespace perigee {
namespace {

constexpr const char* kLocallyConnected1dPositional[] = {"out", "kernel"};
constexpr Option kLocallyConnected1dOptions[] = {{"out", "integer", nullptr, "output channels", {1}},
                                                 kKernelOption,
                                                 kStrideOption,
                                                 kPaddingOption,
                                                 kDilationOption,
                                                 kBiasOption,
                                                 kActivationOption};

std::vector<Value> build_locally_connected1d(LayerContext& context, std::span<const Value> inputs) {
  return build_local(context, inputs[0], 1);
}

}  // namespace

extern const LayerDef layer_locally_connected1d;
const LayerDef layer_locally_connected1d{
    .name = "locally_connected1d",
    .stem = "local",
    .doc = "A convolution along a sequence whose weights differ from place to place.",
    .example = R"({"type": "locally_connected1d", "out": 3, "kernel": 2, "stride": 2, "activation": "tanh"})",
    .example_input = "[2, 7]",
    .schema = layer_schema(kLocallyConnected1dOptions, kLocallyConnected1dPositional),
    .build = build_locally_connected1d};

}  // namespace perigee
