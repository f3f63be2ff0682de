// Loshchilov and Hutter, "SGDR" (2017): cosines that begin anew, each longer than the one before by a factor.
#include <cmath>
#include <numbers>

#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Restarts : Curve {
  explicit Restarts(const Config& options)
      : from(options.number("from")),
        to(options.number("to")),
        length(options.number("length")),
        factor(options.number("factor")),
        decay(options.number("decay")),
        clock(options) {}
  double at(const StepProgress& now) const override {
    const double t = clock.at(now);
    double cycle = std::floor(t / length), begin = cycle * length, current = length;
    if (factor > 1) {  // cycle n begins at length * (factor^n - 1) / (factor - 1)
      const auto begin_of = [&](double n) { return length * (std::pow(factor, n) - 1) / (factor - 1); };
      cycle = std::floor(std::log1p(t / length * (factor - 1)) / std::log(factor));
      if (begin_of(cycle + 1) <= t) ++cycle;  // a logarithm is rounded
      if (begin_of(cycle) > t) --cycle;
      begin = begin_of(cycle), current = length * std::pow(factor, cycle);
    }
    const double top = to + (from - to) * std::pow(decay, cycle);
    return to + (top - to) * 0.5 * (1 + std::cos(std::numbers::pi * (t - begin) / current));
  }
  double from, to, length, factor, decay;
  Clockwork clock;
};

constexpr const char* kRestartsPositional[] = {"from"};
constexpr Option kRestartsOptions[] = {{"from", "number", nullptr, "value at the beginning of a cycle"},
                                       {"to", "number", "0", "value that a cycle falls to"},
                                       {"length", "number", "1", "of the first cycle, in units of `by`", {1e-12, 1e18}},
                                       {"factor", "number", "1", "how much longer each cycle is than the one before", {1, 1000}},
                                       {"decay", "number", "1", "factor on the top of each further cycle", {0, 1}},
                                       {"by", "name", "epoch", "unit of time", {}, {"epoch", "step", "progress"}}};

}  // namespace

extern const ScheduleDef schedule_restarts;
const ScheduleDef schedule_restarts{
    .name = "restarts",
    .doc =
        "Warm restarts: half a cosine from `from` down to `to` (0), again and again; the first takes `length` (1) units of `by` (epoch, "
        "step "
        "or progress), each further one `factor` (1) times as long, from a top that is `decay` (1) times as high.",
    .example = R"({"type": "restarts", "from": 0.1, "length": 10, "factor": 2})",
    .schema = {.options = kRestartsOptions, .positional = kRestartsPositional},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Restarts>(options); },
};

}  // namespace perigee
