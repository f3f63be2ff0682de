// The options of source `images` that say how a picture gets its size, also for pictures that a model is asked about.
#pragma once

#include "src/core/config.h"
#include "src/io/image.h"

namespace perigee {

// fit = "random" is the middle here: whoever draws says what.
FitOptions fit_options(const Config& config, int64_t height, int64_t width);

}  // namespace perigee
