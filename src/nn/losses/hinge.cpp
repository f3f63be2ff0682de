#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_hinge(Graph&, const Config& options, Value output, Value target) {
  return hinge_loss(options, output, target, [](Value x) { return relu(x); });
}

}  // namespace

extern const LossDef loss_hinge;
const LossDef loss_hinge{
    .name = "hinge",
    .doc = "max(0, 1 - y x) with targets -1 and 1. Options: label_smoothing, weights, reduction (inside the example: \"mean\" or \"sum\").",
    .schema = {.options = kHingeOptions},
    .build = build_hinge,
    .example = R"({"type": "hinge", "label_smoothing": 0.2})",
    .example_output = "[4]",
    .example_target = "sign"};

}  // namespace perigee
