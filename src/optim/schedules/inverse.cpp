#include <cmath>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Inverse : Curve {
  explicit Inverse(const Config& options)
      : from(options.number("from")), gamma(options.number("gamma")), power(options.number("power")), clock(options) {}
  double at(const StepProgress& now) const override { return from / std::pow(1 + gamma * clock.at(now), power); }
  double from, gamma, power;
  Clockwork clock;
};

constexpr Option kInverseOptions[] = {{"from", "number", nullptr, "value at the beginning"},
                                      {"gamma", "number", "1", "how fast it falls", {0, 1e18}},
                                      {"power", "number", "1", "exponent of the fall"},
                                      {"by", "name", "epoch", "unit of time", {}, {"epoch", "step", "progress"}}};

}  // namespace

extern const ScheduleDef schedule_inverse;
const ScheduleDef schedule_inverse{
    .name = "inverse",
    .doc = "from / (1 + gamma t) ^ power, with t in units of `by` (epoch, step or progress).",
    .example = R"({"type": "inverse", "from": 0.1, "gamma": 0.5, "power": 1})",
    .schema = {.options = kInverseOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Inverse>(options); },
};

}  // namespace perigee
