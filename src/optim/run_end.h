// What an evaluation takes of a number that training changes by a schedule, so that all epochs are judged alike.
#pragma once

#include "src/optim/schedule.h"

namespace perigee {

// Behind any run.
inline constexpr StepProgress kAfterAll{.progress = 1, .epoch = 1e6, .step = 1'000'000'000};

}  // namespace perigee
