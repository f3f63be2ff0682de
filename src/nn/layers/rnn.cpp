#include "src/nn/layers/recurrent.h"

namespace perigee {
namespace {

constexpr const char* kRnnPositional[] = {"units"};
constexpr Option kRnnOptions[] = {kUnitsOption,
                                  kLayersOption,
                                  kBidirectionalOption,
                                  kReturnsOption,
                                  kStateOption,
                                  kReverseOption,
                                  kStackDropoutOption,
                                  kRecurrentDropoutOption,
                                  kZoneoutOption,
                                  kLayerNormOption,
                                  {"activation", "activation", "tanh", "of the state"},
                                  kBiasOption,
                                  kRecurrentInitOption};

std::vector<Value> build_rnn(LayerContext& context, std::span<const Value> inputs) {
  return build_recurrent(context, RecurrentCell::rnn, inputs);
}

}  // namespace

extern const LayerDef layer_rnn;
const LayerDef layer_rnn{
    .name = "rnn",
    .stem = "rnn",
    .doc = "A simple recurrent layer over a sequence (features x steps): h = activation(x w + h r + b). Second input: the first state.",
    .example = R"({"type": "rnn", "units": 4, "returns": "last"})",
    .example_input = "[2, 3]",
    .schema = layer_schema(kRnnOptions, kRnnPositional),
    .max_inputs = 2,
    .build = build_rnn,
    .step_use = recurrent_step_use};

}  // namespace perigee
