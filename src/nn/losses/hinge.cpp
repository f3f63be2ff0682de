#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build(Graph&, const Config& options, Value output, Value target) {
  const Value y = matched_target(options, output, target);
  return reduced(options, relu(1.0 - y * output));
}

constexpr Option kOptions[] = {{"weights", "list of numbers", "1 each", "one number for each output or class"},
                               {"reduction", "name", "sum", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_hinge;
const LossDef loss_hinge{
    .name = "hinge",
    .doc = "max(0, 1 - y x) with targets -1 and 1. Options: weights, reduction (inside the example: \"mean\" or \"sum\").",
    .schema = {.options = kOptions},
    .build = build,
    .example = R"({"type": "hinge"})",
    .example_output = "[4]",
    .example_target = "sign"};

}  // namespace perigee
