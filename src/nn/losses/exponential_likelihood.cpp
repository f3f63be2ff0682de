#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_exponential_likelihood(Graph&, const Config& options, Value output, Value target) {
  const Value y = matched_target(options, output, target);
  return reduce_sum(flatten_example(exp(output) * y - output), {1});
}

}  // namespace

extern const LossDef loss_exponential_likelihood;
const LossDef loss_exponential_likelihood{
    .name = "exponential_likelihood",
    .doc =
        "-log likelihood of a target of numbers of at least 0 under independent exponential distributions; the outputs are the "
        "logarithms of their rates.",
    .build = build_exponential_likelihood,
    .example = R"({"type": "exponential_likelihood"})",
    .example_output = "[4]",
    .example_target = "positive"};

}  // namespace perigee
