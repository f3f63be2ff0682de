#include "src/optim/schedule.h"

namespace perigee {
namespace {

struct Fixed : Curve {
  explicit Fixed(const Config& options) : value(options.number("value")) {}
  double at(const StepProgress&) const override { return value; }
  double value;
};

constexpr const char* kFixedPositional[] = {"value"};
constexpr Option kFixedOptions[] = {{"value", "number", nullptr, "what it always is"}};

}  // namespace

extern const ScheduleDef schedule_fixed;
const ScheduleDef schedule_fixed{
    .name = "fixed",
    .doc = "Always `value`; a plain number means the same.",
    .example = R"({"type": "fixed", "value": 0.001})",
    .schema = {.options = kFixedOptions, .positional = kFixedPositional},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<Fixed>(options); },
};

}  // namespace perigee
