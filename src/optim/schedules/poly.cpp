#include <algorithm>
#include <cmath>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Poly : Curve {
  explicit Poly(const Config& options)
      : from(options.number("from")), to(options.number("to", 0)), power(options.number_in("power", 0, 1000, 1)) {}
  double at(const StepProgress& now) const override { return to + (from - to) * std::pow(1 - std::clamp(now.progress, 0.0, 1.0), power); }
  double from, to, power;
};

}  // namespace

extern const ScheduleDef schedule_poly;
const ScheduleDef schedule_poly{
    .name = "poly",
    .doc = "to + (from - to) (1 - progress) ^ power over the whole run.",
    .example = R"({"type": "poly", "from": 0.1, "power": 2})",
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Poly>(options); },
};

}  // namespace perigee
