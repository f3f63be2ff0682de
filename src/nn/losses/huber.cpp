#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build(Graph&, const Config& options, Value output, Value target) {
  const double delta = options.number_in("delta", 1e-12, 1e12, 1);
  const Value error = abs(output - matched_target(options, output, target)), near = minimum(error, number_like(error, delta));
  return reduced(options, near * (error - 0.5 * near), "mean");
}

}  // namespace

extern const LossDef loss_huber;
const LossDef loss_huber{.name = "huber",
                         .doc =
                             "Squared error up to `delta` (1), linear beyond. Huber 1964. smooth_l1 elsewhere. Options: weights, reduction "
                             "(inside the example: \"mean\" or \"sum\").",
                         .build = build,
                         .example = R"({"type": "huber", "delta": 0.7})",
                         .example_output = "[4]",
                         .example_target = "real"};

}  // namespace perigee
