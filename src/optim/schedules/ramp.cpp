#include <algorithm>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Ramp : Curve {
  explicit Ramp(const Config& options)
      : base(Schedule::required(options, "schedule")),
        length(options.number_in("length", 1e-12, 1e18, 0.05)),
        start(options.number_in("start", 0, 1, 0)),
        clock(options, "progress") {}
  double at(const StepProgress& now) const override { return base.at(now) * std::min(1.0, start + (1 - start) * (clock.at(now) / length)); }
  Schedule base;
  double length, start;
  Clockwork clock;
};

}  // namespace

extern const ScheduleDef schedule_ramp;
const ScheduleDef schedule_ramp{
    .name = "ramp",
    .doc = "Warm-up: `schedule` times a line that rises from `start` (0) to 1 in the first `length` (0.05) units of `by` (progress).",
    .example = R"({"type": "ramp", "length": 0.05, "schedule": {"type": "cosine", "from": 0.002}})",
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Ramp>(options); },
};

}  // namespace perigee
