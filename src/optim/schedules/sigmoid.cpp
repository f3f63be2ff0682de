#include <cmath>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Sigmoid : Curve {
  explicit Sigmoid(const Config& options)
      : from(options.number("from")), gamma(options.number("gamma")), center(options.number("center")), clock(options) {}
  double at(const StepProgress& now) const override { return from / (1 + std::exp(gamma * (clock.at(now) - center))); }
  double from, gamma, center;
  Clockwork clock;
};

constexpr Option kSigmoidOptions[] = {{"from", "number", nullptr, "value at the beginning"},
                                      {"gamma", "number", "1", "steepness; below 0 it rises"},
                                      {"center", "number", nullptr, "when it is at half"},
                                      {"by", "name", "epoch", "unit of time", {}, {"epoch", "step", "progress"}}};

}  // namespace

extern const ScheduleDef schedule_sigmoid;
const ScheduleDef schedule_sigmoid{
    .name = "sigmoid",
    .doc = "from / (1 + exp(gamma (t - center))): falls to half at `center`; a negative gamma rises. t in units of `by`.",
    .example = R"({"type": "sigmoid", "from": 0.1, "gamma": 0.5, "center": 10})",
    .schema = {.options = kSigmoidOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Sigmoid>(options); },
};

}  // namespace perigee
