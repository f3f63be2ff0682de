#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_wasserstein(Graph&, const Config& options, Value output, Value target) {
  return reduced(options, output * matched_target(options, output, target));
}

constexpr Option kWassersteinOptions[] = {{"weights", "list of numbers", "1 each", "one number for each output or class"},
                                          {"reduction", "name", "mean", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_wasserstein;
const LossDef loss_wasserstein{.name = "wasserstein",
                               .doc =
                                   "Target times output, the critic's loss of Wasserstein networks (targets -1 and 1). Options: weights, "
                                   "reduction (inside the example: \"mean\" or \"sum\").",
                               .schema = {.options = kWassersteinOptions},
                               .build = build_wasserstein,
                               .example = R"({"type": "wasserstein"})",
                               .example_output = "[4]",
                               .example_target = "sign"};

}  // namespace perigee
