#include <algorithm>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Ramp : Curve {
  explicit Ramp(const Config& options)
      : base(Schedule::required(options, "schedule")), length(options.number("length")), start(options.number("start")), clock(options) {}
  double at(const StepProgress& now) const override { return base.at(now) * std::min(1.0, start + (1 - start) * (clock.at(now) / length)); }
  Schedule base;
  double length, start;
  Clockwork clock;
};

constexpr Option kRampOptions[] = {{"length", "number", "0.05", "of the rise, in units of `by`", {1e-12, 1e18}},
                                   {"schedule", "number or schedule", nullptr, "what is multiplied by the rise"},
                                   {"by", "name", "progress", "unit of time", {}, {"epoch", "step", "progress"}},
                                   {"start", "number", "0", "factor at the beginning", {0, 1}}};

}  // namespace

extern const ScheduleDef schedule_ramp;
const ScheduleDef schedule_ramp{
    .name = "ramp",
    .doc = "Warm-up: `schedule` times a line that rises from `start` (0) to 1 in the first `length` (0.05) units of `by` (progress).",
    .example = R"({"type": "ramp", "length": 0.05, "schedule": {"type": "cosine", "from": 0.002}})",
    .schema = {.options = kRampOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Ramp>(options); },
};

}  // namespace perigee
