#include "src/nn/layers/local.h"

namespace perigee {
namespace {

constexpr const char* kLocallyConnected2dPositional[] = {"out", "kernel"};
constexpr Option kLocallyConnected2dOptions[] = {{"out", "integer", nullptr, "output channels", {1}},
                                                 kKernelOption,
                                                 kStrideOption,
                                                 kPaddingOption,
                                                 kDilationOption,
                                                 kBiasOption,
                                                 kActivationOption};

std::vector<Value> build_locally_connected2d(LayerContext& context, std::span<const Value> inputs) {
  return build_local(context, inputs[0], 2);
}

}  // namespace

extern const LayerDef layer_locally_connected2d;
const LayerDef layer_locally_connected2d{
    .name = "locally_connected2d",
    .stem = "local",
    .doc = "A convolution over an image whose weights differ from place to place.",
    .example = R"({"type": "locally_connected2d", "out": 3, "kernel": 2, "stride": 2, "activation": "tanh"})",
    .example_input = "[2, 5, 4]",
    .schema = layer_schema(kLocallyConnected2dOptions, kLocallyConnected2dPositional),
    .build = build_locally_connected2d};

}  // namespace perigee
