#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_log_cosh(Graph&, const Config& options, Value output, Value target) {
  const Value error = abs(output - matched_target(options, output, target));
  return reduced(options, error + softplus(-2.0 * error) - 0.69314718055994530942);
}

constexpr Option kLogCoshOptions[] = {{"weights", "list of numbers", "1 each", "one number for each output or class"},
                                      {"reduction", "name", "mean", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_log_cosh;
const LossDef loss_log_cosh{
    .name = "log_cosh",
    .doc = "log(cosh(error)): squared near 0, absolute far away. Options: weights, reduction (inside the example: \"mean\" or \"sum\").",
    .schema = {.options = kLogCoshOptions},
    .build = build_log_cosh,
    .example = R"({"type": "log_cosh"})",
    .example_output = "[4]",
    .example_target = "real"};

}  // namespace perigee
