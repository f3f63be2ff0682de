#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_mape(Graph&, const Config& options, Value output, Value target) {
  const Value y = matched_target(options, output, target);
  return reduced(options, 100.0 * (abs(output - y) / maximum(abs(y), number_like(y, 1e-7))));
}

constexpr Option kMapeOptions[] = {{"weights", "list of numbers", "1 each", "one number for each output or class"},
                                   {"reduction", "name", "mean", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_mape;
const LossDef loss_mape{
    .name = "mape",
    .doc = "Mean absolute error in percent of the target. Options: weights, reduction (inside the example: \"mean\" or \"sum\").",
    .schema = {.options = kMapeOptions},
    .build = build_mape,
    .example = R"({"type": "mape"})",
    .example_output = "[4]",
    .example_target = "positive"};

}  // namespace perigee
