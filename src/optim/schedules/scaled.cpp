#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Scaled : Curve {
  explicit Scaled(const Config& options) : base(Schedule::required(options, "schedule")), factor(options.number("factor")) {}
  double at(const StepProgress& now) const override { return factor * base.at(now); }
  Schedule base;
  double factor;
};

constexpr Option kScaledOptions[] = {{"schedule", "number or schedule", nullptr, "what is multiplied"},
                                     {"factor", "number", nullptr, "by this", {0, 1e12}}};

}  // namespace

extern const ScheduleDef schedule_scaled;
const ScheduleDef schedule_scaled{
    .name = "scaled",
    .doc = "`schedule` times `factor`, as reduce_on_plateau tells the workers of a cluster.",
    .example = R"({"type": "scaled", "schedule": {"type": "cosine", "from": 0.002}, "factor": 0.1})",
    .schema = {.options = kScaledOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Scaled>(options); },
};

}  // namespace perigee
