#include <cmath>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Step : Curve {
  explicit Step(const Config& options)
      : from(options.number("from")), rate(options.number("rate")), every(options.number("every")), clock(options) {}
  double at(const StepProgress& now) const override { return from * std::pow(rate, std::floor(clock.at(now) / every)); }
  double from, rate, every;
  Clockwork clock;
};

constexpr Option kStepOptions[] = {{"from", "number", nullptr, "value at the beginning"},
                                   {"rate", "number", "0.1", "factor of each fall"},
                                   {"every", "number", "1", "time between two falls", {1e-12, 1e18}},
                                   {"by", "name", "epoch", "unit of time", {}, {"epoch", "step", "progress"}}};

}  // namespace

extern const ScheduleDef schedule_step;
const ScheduleDef schedule_step{
    .name = "step",
    .doc = "from * rate ^ floor(t / every): falls by `rate` (0.1) once in `every` (1) units of `by` (epoch, step or progress).",
    .example = R"({"type": "step", "from": 0.1, "rate": 0.5, "every": 10})",
    .schema = {.options = kStepOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Step>(options); },
};

}  // namespace perigee
