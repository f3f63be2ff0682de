#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_poisson(Graph&, const Config& options, Value output, Value target) {
  const Value y = matched_target(options, output, target);
  if (options.boolean("log_input")) return reduced(options, exp(output) - y * output);
  return reduced(options, output - y * log(maximum(output, number_like(output, 1e-7))));
}

constexpr Option kPoissonOptions[] = {{"log_input", "boolean", "false", "the output is the logarithm of the rate"},
                                      {"weights", "list of numbers", "1 each", "one number for each output or class"},
                                      {"reduction", "name", "sum", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_poisson;
const LossDef loss_poisson{.name = "poisson",
                           .doc =
                               "Negative log likelihood of counts under a Poisson distribution whose mean is the output, or with log_input "
                               "= true its exp. Options: weights, reduction (inside the example: \"mean\" or \"sum\").",
                           .schema = {.options = kPoissonOptions},
                           .build = build_poisson,
                           .example = R"({"type": "poisson"})",
                           .example_output = "[4]",
                           .example_target = "positive",
                           .example_low = 0.2,
                           .example_high = 3};

}  // namespace perigee
