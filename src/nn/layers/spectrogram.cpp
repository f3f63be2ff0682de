#include "src/nn/layers/sound.h"

namespace perigee {
namespace {

constexpr auto kSpectrogramLayerOptions = joined_options(kSoundRate, kFeatureOptions);

std::vector<Value> build_spectrogram(LayerContext& context, std::span<const Value> inputs) {
  return build_sound(context, inputs[0], Feature::spectrogram);
}

}  // namespace

extern const LayerDef layer_spectrogram;
const LayerDef layer_spectrogram{
    .name = "spectrogram",
    .doc = "Waveforms (channels x steps) to power by frequency and time: channels * (fft / 2 + 1) x frames. As the transform of this name.",
    .example = R"({"type": "spectrogram", "rate": 8000, "window": 1, "hop": 0.5})",
    .example_input = "[1, 40]",
    .schema = layer_schema(kSpectrogramLayerOptions),
    .build = build_spectrogram};

}  // namespace perigee
