#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_mae(Graph&, const Config& options, Value output, Value target) {
  const Value difference = output - matched_target(options, output, target);
  return reduced(options, abs(difference));
}

constexpr Option kMaeOptions[] = {{"weights", "list of numbers", "1 each", "one number for each output or class"},
                                  {"reduction", "name", "mean", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_mae;
const LossDef loss_mae{.name = "mae",
                       .doc = "Mean absolute error. Options: weights, reduction (inside the example: \"mean\" or \"sum\").",
                       .schema = {.options = kMaeOptions},
                       .build = build_mae,
                       .example = R"({"type": "mae"})",
                       .example_output = "[4]",
                       .example_target = "real"};

}  // namespace perigee
