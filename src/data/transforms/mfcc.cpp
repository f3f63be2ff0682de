// {"type": "mfcc"}: mel-frequency cepstral coefficients.
#include "src/data/sound/spectrum.h"

namespace perigee {
namespace {

std::unique_ptr<Transform> open_mfcc(const Config& config, const DataSource& source, size_t field) {
  return open_spectrum(config, source, field, Feature::mfcc);
}

constexpr const char* kMfccPositional[] = {"coefficients"};
constexpr Option kMfccOptions[] = {{"coefficients", "integer", "13", "how many, from c0 on", {1, 1024}},
                                   {"energy", "boolean", "false", "the first one is the logarithm of the frame's energy"},
                                   {"lifter", "number", "0", "lifts high coefficients; 0: does not", {0, 1000}},
                                   {"mels", "integer", "40", "number of filters", {1, 1024}},
                                   {"low", "number", "0", "least frequency, in hertz", {0, 1e6}},
                                   {"high", "number", "half the rate", "greatest frequency, in hertz", {0, 1e6}},
                                   {"scale", "name", "slaney, of form htk htk", "the mel scale", {}, {"slaney", "htk"}},
                                   {"equal_area", "boolean", "true, of form htk false", "filters have area 1 instead of height 1"}};

}  // namespace

extern const TransformDef transform_mfcc;
const TransformDef transform_mfcc{.type = "mfcc",
                                  .doc =
                                      "Mel-frequency cepstral coefficients: [channels * coefficients, frames]. Options: coefficients (13), "
                                      "deltas (0 to 2), mels (40), window (25 ms), hop (10 ms), form ('librosa' or 'htk')",
                                  .schema = {.options = kMfccOptions, .positional = kMfccPositional, .common = &spectrum_schema},
                                  .open = open_mfcc};

}  // namespace perigee
