#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_msle(Graph& graph, const Config& options, Value output, Value target) {
  const Value y = matched_target(options, output, target);
  const auto log1p = [&](Value x) { return graph.apply("log1p", {maximum(x, number_like(x, -0.999999))}); };
  return reduced(options, square(log1p(output) - log1p(y)));
}

constexpr Option kMsleOptions[] = {{"weights", "list of numbers", "1 each", "one number for each output or class"},
                                   {"reduction", "name", "mean", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_msle;
const LossDef loss_msle{.name = "msle",
                        .doc =
                            "Mean squared difference of log(1 + x), for targets that span magnitudes. Options: weights, reduction (inside "
                            "the example: \"mean\" or \"sum\").",
                        .schema = {.options = kMsleOptions},
                        .build = build_msle,
                        .example = R"({"type": "msle"})",
                        .example_output = "[4]",
                        .example_target = "positive",
                        .example_low = 0.1,
                        .example_high = 3};

}  // namespace perigee
