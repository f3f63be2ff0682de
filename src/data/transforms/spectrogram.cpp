// {"type": "spectrogram"}: power in each frequency, frame by frame.
#include "src/data/sound/spectrum.h"

namespace perigee {
namespace {

std::unique_ptr<Transform> open_spectrogram(const Config& config, const DataSource& source, size_t field) {
  return open_spectrum(config, source, field, Feature::spectrogram);
}

}  // namespace

extern const TransformDef transform_spectrogram;
const TransformDef transform_spectrogram{.type = "spectrogram",
                                         .doc =
                                             "Power by frequency and time: [channels * (fft / 2 + 1), frames]. Options: window (25 ms), "
                                             "hop (10 ms), taper, log ('none', 'db' or 'ln')",
                                         .schema = {.common = &spectrum_schema},
                                         .open = open_spectrogram};

}  // namespace perigee
