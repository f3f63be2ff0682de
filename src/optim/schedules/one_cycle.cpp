// Smith and Topin, "Super-convergence" (2018), with the defaults of PyTorch's OneCycleLR.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct OneCycle : Curve {
  explicit OneCycle(const Config& options)
      : max(options.number("max")),
        from(options.number("from", max / 25)),
        to(options.number("to", from / 1e4)),
        peak(options.number("peak")),
        linear(options.choice("shape") == "linear") {}
  double between(double a, double b, double part) const {
    return linear ? a + (b - a) * part : b + (a - b) * 0.5 * (1 + std::cos(std::numbers::pi * part));
  }
  double at(const StepProgress& now) const override {
    const double p = std::clamp(now.progress, 0.0, 1.0);
    if (p < peak) return between(from, max, p / peak);
    return peak < 1 ? between(max, to, (p - peak) / (1 - peak)) : max;
  }
  double max, from, to, peak;
  bool linear;
};

constexpr Option kOneCycleOptions[] = {{"max", "number", nullptr, "value at the peak"},
                                       {"peak", "number", "0.3", "share of the run before the peak", {0, 1}},
                                       {"from", "number", "max / 25", "value at the beginning"},
                                       {"shape", "name", "cosine", "of both ways", {}, {"cosine", "linear"}},
                                       {"to", "number", "from / 10000", "value at the end"}};

}  // namespace

extern const ScheduleDef schedule_one_cycle;
const ScheduleDef schedule_one_cycle{
    .name = "one_cycle",
    .doc = "Rises from `from` (max / 25) to `max` at `peak` (0.3) of the run, then falls to `to` (from / 10000); `shape` cosine or linear.",
    .example = R"({"type": "one_cycle", "max": 0.1, "peak": 0.3})",
    .schema = {.options = kOneCycleOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<OneCycle>(options); },
};

}  // namespace perigee
