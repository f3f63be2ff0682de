#include "src/nn/layers/sound.h"

namespace perigee {
namespace {

constexpr auto kMelLayerOptions = joined_options(kSoundRate, kMelOptions, kFeatureOptions);

std::vector<Value> build_mel(LayerContext& context, std::span<const Value> inputs) { return build_sound(context, inputs[0], Feature::mel); }

}  // namespace

extern const LayerDef layer_mel;
const LayerDef layer_mel{
    .name = "mel",
    .doc =
        "Waveforms (channels x steps) to power in bands of equal width on a mel scale, in dB: channels * mels x frames. As the transform "
        "of this name.",
    .example = R"({"type": "mel", "rate": 8000, "window": 4, "hop": 2, "mels": 5, "log": "ln", "pad": "reflect"})",
    .example_input = "[2, 60]",
    .schema = layer_schema(kMelLayerOptions),
    .build = build_mel};

}  // namespace perigee
