#include <cmath>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Sigmoid : Curve {
  explicit Sigmoid(const Config& options)
      : from(options.number("from")), gamma(options.number("gamma", 1)), center(options.number("center")), clock(options) {}
  double at(const StepProgress& now) const override { return from / (1 + std::exp(gamma * (clock.at(now) - center))); }
  double from, gamma, center;
  Clockwork clock;
};

}  // namespace

extern const ScheduleDef schedule_sigmoid;
const ScheduleDef schedule_sigmoid{
    .name = "sigmoid",
    .doc = "from / (1 + exp(gamma (t - center))): falls to half at `center`; a negative gamma rises. t in units of `by`.",
    .example = R"({"type": "sigmoid", "from": 0.1, "gamma": 0.5, "center": 10})",
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Sigmoid>(options); },
};

}  // namespace perigee
