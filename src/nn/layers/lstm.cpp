#include "src/nn/layers/recurrent.h"

namespace perigee {
namespace {

constexpr const char* kLstmPositional[] = {"units"};
constexpr Option kLstmOptions[] = {
    kUnitsOption,
    kLayersOption,
    kBidirectionalOption,
    kReturnsOption,
    kStateOption,
    kReverseOption,
    kStackDropoutOption,
    kRecurrentDropoutOption,
    kZoneoutOption,
    {"peepholes", "boolean", "false", "the gates see the cell (Gers and Schmidhuber 2000)"},
    {"projection", "integer", "0", "size of the output, a learned projection of the state; 0: none", {0, 1 << 16}},
    kLayerNormOption,
    {"forget_bias", "number", "1", "initial bias of the forget gate"},
    {"activation", "activation", "tanh", "of the candidate and of the cell"},
    kGateActivationOption,
    kBiasOption,
    kRecurrentInitOption};

std::vector<Value> build_lstm(LayerContext& context, std::span<const Value> inputs) {
  return build_recurrent(context, RecurrentCell::lstm, inputs);
}

}  // namespace

extern const LayerDef layer_lstm;
const LayerDef layer_lstm{
    .name = "lstm",
    .stem = "lstm",
    .doc = "Long short-term memory over a sequence (features x steps). Gates i f g o. Further inputs: the first states h and c.",
    .example = R"({"type": "lstm", "units": 3, "layers": 2, "bidirectional": "concat"})",
    .example_input = "[2, 3]",
    .schema = layer_schema(kLstmOptions, kLstmPositional),
    .max_inputs = 3,
    .build = build_lstm,
    .step_use = recurrent_step_use};

}  // namespace perigee
