#include "src/nn/layers/sound.h"

namespace perigee {
namespace {

constexpr auto kMfccLayerOptions = joined_options(kMfccOptions, kSoundRate, kMelOptions, kFeatureOptions);

std::vector<Value> build_mfcc(LayerContext& context, std::span<const Value> inputs) {
  return build_sound(context, inputs[0], Feature::mfcc);
}

}  // namespace

extern const LayerDef layer_mfcc;
const LayerDef layer_mfcc{
    .name = "mfcc",
    .doc =
        "Waveforms (channels x steps) to mel-frequency cepstral coefficients: channels * coefficients x frames, with deltas twice or three "
        "times as many. As the transform of this name.",
    .example = R"({"type": "mfcc", "rate": 8000, "window": 4, "hop": 2, "mels": 6, "coefficients": 3, "deltas": 2})",
    .example_input = "[1, 90]",
    .schema = layer_schema(kMfccLayerOptions, kMfccPositional),
    .build = build_mfcc};

}  // namespace perigee
