#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_squared_hinge(Graph&, const Config& options, Value output, Value target) {
  return hinge_loss(options, output, target, [](Value x) { return square(relu(x)); });
}

}  // namespace

extern const LossDef loss_squared_hinge;
const LossDef loss_squared_hinge{
    .name = "squared_hinge",
    .doc =
        "max(0, 1 - y x)^2 with targets -1 and 1. Options: label_smoothing, weights, reduction (inside the example: \"mean\" or \"sum\").",
    .schema = {.options = kHingeOptions},
    .build = build_squared_hinge,
    .example = R"({"type": "squared_hinge", "label_smoothing": 0.2})",
    .example_output = "[4]",
    .example_target = "sign"};

}  // namespace perigee
