#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_mse(Graph&, const Config& options, Value output, Value target) {
  const Value difference = output - matched_target(options, output, target);
  return reduced(options, square(difference));
}

constexpr Option kMseOptions[] = {{"weights", "list of numbers", "1 each", "one number for each output or class"},
                                  {"reduction", "name", "mean", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_mse;
const LossDef loss_mse{.name = "mse",
                       .doc = "Mean squared error. Options: weights, reduction (inside the example: \"mean\" or \"sum\").",
                       .schema = {.options = kMseOptions},
                       .build = build_mse,
                       .example = R"({"type": "mse", "weights": [1, 2, 0.5, 1]})",
                       .example_output = "[4]",
                       .example_target = "real"};

}  // namespace perigee
