// Recordings, frame by frame: short-time Fourier transform, mel filters, cepstral coefficients, their deltas. A transform is computed once per
// example by the threads that read, with a fast Fourier transform, and is stored with the job, so that `predict`, servers and workers apply it to
// recordings as they are. [channels, steps] becomes [channels * features, frames]. The layers of these names (src/nn/layers/sound.h) have the
// same options and are computed where the network is.
#pragma once

#include <memory>

#include "src/data/transform.h"
#include "src/io/sound/features.h"

namespace perigee {

// The options that all of them have; those that mel bands have too.
extern const Schema spectrum_schema, mel_schema;

// The options' values; Error when they do not fit the field.
std::unique_ptr<Transform> open_spectrum(const Config& config, const DataSource& source, size_t field, Feature feature);

}  // namespace perigee
