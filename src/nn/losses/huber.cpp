#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_huber(Graph&, const Config& options, Value output, Value target) {
  const double delta = options.number("delta");
  const Value error = abs(output - matched_target(options, output, target)), near = minimum(error, number_like(error, delta));
  return reduced(options, near * (error - 0.5 * near));
}

constexpr Option kHuberOptions[] = {{"delta", "number", "1", "where the square ends", {1e-12, 1e12}},
                                    {"weights", "list of numbers", "1 each", "one number for each output or class"},
                                    {"reduction", "name", "mean", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_huber;
const LossDef loss_huber{.name = "huber",
                         .doc =
                             "Squared error up to `delta` (1), linear beyond. Huber 1964. smooth_l1 elsewhere. Options: weights, reduction "
                             "(inside the example: \"mean\" or \"sum\").",
                         .schema = {.options = kHuberOptions},
                         .build = build_huber,
                         .example = R"({"type": "huber", "delta": 0.7})",
                         .example_output = "[4]",
                         .example_target = "real"};

}  // namespace perigee
