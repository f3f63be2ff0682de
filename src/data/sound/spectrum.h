// Recordings, frame by frame: short-time Fourier transform, mel filters, cepstral coefficients, their deltas. A transform and no
// layer: it is computed once per example by the threads that read, with a fast Fourier transform, and is stored with the job, so that `predict`,
// servers and workers apply it to recordings as they are. [channels, steps] becomes [channels * features, frames].
#pragma once

#include <vector>

#include "src/data/transform.h"

namespace perigee {

enum class Feature { spectrogram, mel, mfcc };

// The options that all of them have.
extern const Schema spectrum_schema;

// The options' values; Error when they do not fit the field.
std::unique_ptr<Transform> open_spectrum(const Config& config, const DataSource& source, size_t field, Feature feature);

}  // namespace perigee
