// Loshchilov and Hutter, "SGDR" (2017), without restarts unless `cycles` asks for them; a linear warm-up in front.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Cosine : Curve {
  explicit Cosine(const Config& options)
      : from(options.number("from")),
        to(options.number("to")),
        warmup(options.number("warmup")),
        start(options.number("start")),
        cycles(options.integer("cycles")) {}
  double at(const StepProgress& now) const override {
    const double p = std::clamp(now.progress, 0.0, 1.0);
    if (p < warmup) return start + (from - start) * (p / warmup);
    double rest = warmup < 1 ? (p - warmup) / (1 - warmup) : 1;
    if (cycles > 1 && rest < 1) rest = rest * static_cast<double>(cycles) - std::floor(rest * static_cast<double>(cycles));
    return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * rest));
  }
  double from, to, warmup, start;
  int64_t cycles;
};

constexpr const char* kCosinePositional[] = {"from"};
constexpr Option kCosineOptions[] = {{"from", "number", nullptr, "value at the beginning"},
                                     {"to", "number", "0", "value at the end"},
                                     {"warmup", "number", "0", "share of the run in which it rises", {0, 1}},
                                     {"cycles", "integer", "1", "how often it begins anew", {1, 1000000}},
                                     {"start", "number", "0", "where the rise begins"}};

}  // namespace

extern const ScheduleDef schedule_cosine;
const ScheduleDef schedule_cosine{
    .name = "cosine",
    .doc =
        "Half a cosine from `from` down to `to` (0) over the run, after a linear rise from `start` (0) in the first `warmup` (0) of it; "
        "`cycles` (1) begins anew that often.",
    .example = R"({"type": "cosine", "from": 0.002, "to": 0, "warmup": 0.05})",
    .schema = {.options = kCosineOptions, .positional = kCosinePositional},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Cosine>(options); },
};

}  // namespace perigee
