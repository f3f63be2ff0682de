#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build(Graph&, const Config& options, Value output, Value target) {
  const Value y = matched_target(options, output, target);
  return reduced(options, square(relu(1.0 - y * output)));
}

constexpr Option kOptions[] = {{"weights", "list of numbers", "1 each", "one number for each output or class"},
                               {"reduction", "name", "sum", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_squared_hinge;
const LossDef loss_squared_hinge{
    .name = "squared_hinge",
    .doc = "max(0, 1 - y x)^2 with targets -1 and 1. Options: weights, reduction (inside the example: \"mean\" or \"sum\").",
    .schema = {.options = kOptions},
    .build = build,
    .example = R"({"type": "squared_hinge"})",
    .example_output = "[4]",
    .example_target = "sign"};

}  // namespace perigee
