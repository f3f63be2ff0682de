// Deeplearning4j's CycleSchedule: up and down in straight lines, then a decaying tail, again and again.
#include <cmath>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Cycle : Curve {
  explicit Cycle(const Config& options)
      : from(options.number("from")),
        max(options.number("max")),
        length(options.number("length")),
        tail(options.number_in("annealing", 0, length, length * 0.1)),
        decay(options.number("annealing_decay")),
        clock(options) {}
  double at(const StepProgress& now) const override {
    const double position = std::fmod(clock.at(now), length), half = (length - tail) / 2;
    if (position < half) return from + (max - from) * (position / half);
    if (position < 2 * half) return max - (max - from) * ((position - half) / half);
    return from * std::pow(decay, (position - 2 * half) / tail);
  }
  double from, max, length, tail, decay;
  Clockwork clock;
};

constexpr Option kCycleOptions[] = {{"from", "number", nullptr, "value at the beginning"},
                                    {"max", "number", nullptr, "value at the top"},
                                    {"length", "number", "1", "of a cycle", {1e-12, 1e18}},
                                    {"annealing", "number", "a tenth of the length", "the last part of a cycle, which falls", {0, 1e18}},
                                    {"by", "name", "epoch", "unit of time", {}, {"epoch", "step", "progress"}},
                                    {"annealing_decay", "number", "0.1", "what the fall ends at, as a share of `from`", {1e-12, 1}}};

}  // namespace

extern const ScheduleDef schedule_cycle;
const ScheduleDef schedule_cycle{
    .name = "cycle",
    .doc =
        "From `from` up to `max` and back in straight lines, then down to from * annealing_decay (0.1) in the last `annealing` of each "
        "`length`, which are in units of `by` (epoch, step or progress).",
    .example = R"({"type": "cycle", "from": 0.01, "max": 0.1, "length": 1, "annealing": 0.1, "by": "progress"})",
    .schema = {.options = kCycleOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Cycle>(options); },
};

}  // namespace perigee
