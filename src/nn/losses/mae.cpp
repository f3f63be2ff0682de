#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build(Graph&, const Config& options, Value output, Value target) {
  const Value difference = output - matched_target(options, output, target);
  return reduced(options, abs(difference), "mean");
}

}  // namespace

extern const LossDef loss_mae;
const LossDef loss_mae{.name = "mae",
                       .doc = "Mean absolute error. Options: weights, reduction (inside the example: \"mean\" or \"sum\").",
                       .build = build,
                       .example = R"({"type": "mae"})",
                       .example_output = "[4]",
                       .example_target = "real"};

}  // namespace perigee
