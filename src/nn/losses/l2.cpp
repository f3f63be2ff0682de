#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_l2(Graph&, const Config& options, Value output, Value target) {
  const Value difference = output - matched_target(options, output, target);
  return reduced(options, square(difference));
}

constexpr Option kL2Options[] = {{"weights", "list of numbers", "1 each", "one number for each output or class"},
                                 {"reduction", "name", "sum", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_l2;
const LossDef loss_l2{.name = "l2",
                      .doc = "Sum of squared errors. Options: weights, reduction (inside the example: \"mean\" or \"sum\").",
                      .schema = {.options = kL2Options},
                      .build = build_l2,
                      .example = R"({"type": "l2"})",
                      .example_output = "[4]",
                      .example_target = "real"};

}  // namespace perigee
