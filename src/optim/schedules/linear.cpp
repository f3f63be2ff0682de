#include <algorithm>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Linear : Curve {
  explicit Linear(const Config& options)
      : from(options.number("from")), to(options.number("to")), warmup(options.number("warmup")), start(options.number("start")) {}
  double at(const StepProgress& now) const override {
    const double p = std::clamp(now.progress, 0.0, 1.0);
    if (p < warmup) return start + (from - start) * (p / warmup);
    return warmup < 1 ? from + (to - from) * ((p - warmup) / (1 - warmup)) : from;
  }
  double from, to, warmup, start;
};

constexpr Option kLinearOptions[] = {{"from", "number", nullptr, "value at the beginning"},
                                     {"to", "number", "0", "value at the end"},
                                     {"warmup", "number", "0", "share of the run in which it rises", {0, 1}},
                                     {"start", "number", "0", "where the rise begins"}};

}  // namespace

extern const ScheduleDef schedule_linear;
const ScheduleDef schedule_linear{
    .name = "linear",
    .doc = "A straight line from `from` to `to` (0) over the run, after a linear rise from `start` (0) in the first `warmup` (0) of it.",
    .example = R"({"type": "linear", "from": 0.01, "to": 0.001, "warmup": 0.1})",
    .schema = {.options = kLinearOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Linear>(options); },
};

}  // namespace perigee
