#include <algorithm>
#include <cmath>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Poly : Curve {
  explicit Poly(const Config& options) : from(options.number("from")), to(options.number("to")), power(options.number("power")) {}
  double at(const StepProgress& now) const override { return to + (from - to) * std::pow(1 - std::clamp(now.progress, 0.0, 1.0), power); }
  double from, to, power;
};

constexpr Option kPolyOptions[] = {{"from", "number", nullptr, "value at the beginning"},
                                   {"power", "number", "1", "exponent of the fall", {0, 1000}},
                                   {"to", "number", "0", "value at the end"}};

}  // namespace

extern const ScheduleDef schedule_poly;
const ScheduleDef schedule_poly{
    .name = "poly",
    .doc = "to + (from - to) (1 - progress) ^ power over the whole run.",
    .example = R"({"type": "poly", "from": 0.1, "power": 2})",
    .schema = {.options = kPolyOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Poly>(options); },
};

}  // namespace perigee
