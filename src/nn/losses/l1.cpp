#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_l1(Graph&, const Config& options, Value output, Value target) {
  const Value difference = output - matched_target(options, output, target);
  return reduced(options, abs(difference));
}

constexpr Option kL1Options[] = {{"weights", "list of numbers", "1 each", "one number for each output or class"},
                                 {"reduction", "name", "sum", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_l1;
const LossDef loss_l1{.name = "l1",
                      .doc = "Sum of absolute errors. Options: weights, reduction (inside the example: \"mean\" or \"sum\").",
                      .schema = {.options = kL1Options},
                      .build = build_l1,
                      .example = R"({"type": "l1"})",
                      .example_output = "[4]",
                      .example_target = "real"};

}  // namespace perigee
