// {"type": "mel"}: power in bands of equal width on a mel scale.
#include "src/data/sound/spectrum.h"

namespace perigee {
namespace {

std::unique_ptr<Transform> open_mel(const Config& config, const DataSource& source, size_t field) {
  return open_spectrum(config, source, field, Feature::mel);
}

}  // namespace

extern const TransformDef transform_mel;
const TransformDef transform_mel{.type = "mel",
                                 .doc =
                                     "Power in mel bands, in dB: [channels * mels, frames]. Options: mels (40), low, high, window (25 ms), "
                                     "hop (10 ms), form ('librosa' or 'htk')",
                                 .schema = {.common = &mel_schema},
                                 .open = open_mel};

}  // namespace perigee
