#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build(Graph&, const Config& options, Value output, Value target) {
  const Value difference = output - matched_target(options, output, target);
  return reduced(options, abs(difference), "sum");
}

}  // namespace

extern const LossDef loss_l1;
const LossDef loss_l1{.name = "l1",
                      .doc = "Sum of absolute errors. Options: weights, reduction (inside the example: \"mean\" or \"sum\").",
                      .build = build,
                      .example = R"({"type": "l1"})",
                      .example_output = "[4]",
                      .example_target = "real"};

}  // namespace perigee
