#include "src/nn/layers/recurrent.h"

namespace perigee {
namespace {

constexpr const char* kGruPositional[] = {"units"};
constexpr Option kGruOptions[] = {
    kUnitsOption,
    kLayersOption,
    kBidirectionalOption,
    kReturnsOption,
    kStateOption,
    kReverseOption,
    kStackDropoutOption,
    kRecurrentDropoutOption,
    kZoneoutOption,
    {"reset", "name", "after", "where the reset gate acts: behind the product (PyTorch, cuDNN) or before it", {}, {"after", "before"}},
    kLayerNormOption,
    {"activation", "activation", "tanh", "of the candidate"},
    kGateActivationOption,
    kBiasOption,
    kRecurrentInitOption};

std::vector<Value> build_gru(LayerContext& context, std::span<const Value> inputs) {
  return build_recurrent(context, RecurrentCell::gru, inputs);
}

}  // namespace

extern const LayerDef layer_gru;
const LayerDef layer_gru{.name = "gru",
                         .stem = "gru",
                         .doc = "Gated recurrent units over a sequence (features x steps). Gates r z n. Second input: the first state.",
                         .example = R"({"type": "gru", "units": 3, "reverse": true})",
                         .example_input = "[2, 3]",
                         .schema = layer_schema(kGruOptions, kGruPositional),
                         .max_inputs = 2,
                         .build = build_gru,
                         .step_use = recurrent_step_use};

}  // namespace perigee
