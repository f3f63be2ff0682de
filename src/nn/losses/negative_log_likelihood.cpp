#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_negative_log_likelihood(Graph& graph, const Config& options, Value output, Value target) {
  return class_cross_entropy(graph, options, output, target);
}

constexpr Option kNegativeLogLikelihoodOptions[] = {
    {"label_smoothing", "number", "0", "share of the target that is spread over all classes", {0, 1}},
    {"weights", "list of numbers", "1 each", "one number for each output or class"},
    kBalanceOption,
    kIgnoreOption};

}  // namespace

extern const LossDef loss_negative_log_likelihood;
const LossDef loss_negative_log_likelihood{.name = "negative_log_likelihood",
                                           .doc = "The same as cross_entropy, by its other name.",
                                           .schema = {.options = kNegativeLogLikelihoodOptions},
                                           .build = build_negative_log_likelihood,
                                           .link = "softmax",
                                           .example = R"({"type": "negative_log_likelihood"})",
                                           .example_output = "[4]",
                                           .example_target = "class"};

}  // namespace perigee
