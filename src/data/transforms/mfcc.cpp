// {"type": "mfcc"}: mel-frequency cepstral coefficients.
#include "src/data/sound/spectrum.h"

namespace perigee {
namespace {

std::unique_ptr<Transform> open_mfcc(const Config& config, const DataSource& source, size_t field) {
  return open_spectrum(config, source, field, Feature::mfcc);
}

}  // namespace

extern const TransformDef transform_mfcc;
const TransformDef transform_mfcc{.type = "mfcc",
                                  .doc =
                                      "Mel-frequency cepstral coefficients: [channels * coefficients, frames]. Options: coefficients (13), "
                                      "deltas (0 to 2), mels (40), window (25 ms), hop (10 ms), form ('librosa' or 'htk')",
                                  .schema = {.options = kMfccOptions, .positional = kMfccPositional, .common = &mel_schema},
                                  .open = open_mfcc};

}  // namespace perigee
