#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_cross_entropy(Graph& graph, const Config& options, Value output, Value target) {
  return class_cross_entropy(graph, options, output, target);
}

constexpr Option kCrossEntropyOptions[] = {
    {"label_smoothing", "number", "0", "share of the target that is spread over all classes", {0, 1}},
    {"weights", "list of numbers", "1 each", "one number for each output or class"},
    kBalanceOption,
    kIgnoreOption};

}  // namespace

extern const LossDef loss_cross_entropy;
const LossDef loss_cross_entropy{
    .name = "cross_entropy",
    .doc =
        "-log of the softmax probability of the target: class numbers [N] or distributions [N, C]. Takes logits; a softmax as the last "
        "layer is looked through. Options: label_smoothing, weights (per class).",
    .schema = {.options = kCrossEntropyOptions},
    .build = build_cross_entropy,
    .link = "softmax",
    .example = R"({"type": "cross_entropy", "label_smoothing": 0.2, "weights": [1, 2, 0.5, 1]})",
    .example_output = "[4]",
    .example_target = "probability"};

}  // namespace perigee
