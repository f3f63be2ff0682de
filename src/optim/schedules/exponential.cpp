#include <cmath>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Exponential : Curve {
  explicit Exponential(const Config& options) : from(options.number("from")), gamma(options.number("gamma")), clock(options) {}
  double at(const StepProgress& now) const override { return from * std::pow(gamma, clock.at(now)); }
  double from, gamma;
  Clockwork clock;
};

constexpr Option kExponentialOptions[] = {{"from", "number", nullptr, "value at the beginning"},
                                          {"gamma", "number", nullptr, "factor per unit of time"},
                                          {"by", "name", "epoch", "unit of time", {}, {"epoch", "step", "progress"}}};

}  // namespace

extern const ScheduleDef schedule_exponential;
const ScheduleDef schedule_exponential{
    .name = "exponential",
    .doc = "from * gamma ^ t, with t in units of `by` (epoch, step or progress).",
    .example = R"({"type": "exponential", "from": 0.1, "gamma": 0.95})",
    .schema = {.options = kExponentialOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Exponential>(options); },
};

}  // namespace perigee
