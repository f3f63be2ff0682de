// {"type": "mel"}: power in bands of equal width on a mel scale.
#include "src/data/sound/spectrum.h"

namespace perigee {
namespace {

std::unique_ptr<Transform> open_mel(const Config& config, const DataSource& source, size_t field) {
  return open_spectrum(config, source, field, Feature::mel);
}

constexpr Option kMelOptions[] = {{"mels", "integer", "40", "number of filters", {1, 1024}},
                                  {"low", "number", "0", "least frequency, in hertz", {0, 1e6}},
                                  {"high", "number", "half the rate", "greatest frequency, in hertz", {0, 1e6}},
                                  {"scale", "name", "slaney, of form htk htk", "the mel scale", {}, {"slaney", "htk"}},
                                  {"equal_area", "boolean", "true, of form htk false", "filters have area 1 instead of height 1"}};

}  // namespace

extern const TransformDef transform_mel;
const TransformDef transform_mel{.type = "mel",
                                 .doc =
                                     "Power in mel bands, in dB: [channels * mels, frames]. Options: mels (40), low, high, window (25 ms), "
                                     "hop (10 ms), form ('librosa' or 'htk')",
                                 .schema = {.options = kMelOptions, .common = &spectrum_schema},
                                 .open = open_mel};

}  // namespace perigee
