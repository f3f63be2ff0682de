#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_binary_cross_entropy(Graph&, const Config& options, Value output, Value target) {
  return reduced(options, binary_terms(options, output, target));
}

constexpr Option kBinaryCrossEntropyOptions[] = {
    {"label_smoothing", "number", "0", "share of the target that is spread over all classes", {0, 1}},
    {"weights", "list of numbers", "1 each", "one number for each output or class"},
    {"reduction", "name", "mean", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_binary_cross_entropy;
const LossDef loss_binary_cross_entropy{.name = "binary_cross_entropy",
                                        .doc =
                                            "-log of the probability of each 0 or 1, from logits; a sigmoid as the last layer is looked "
                                            "through. Options: weights, label_smoothing, reduction (\"mean\" or \"sum\").",
                                        .schema = {.options = kBinaryCrossEntropyOptions},
                                        .build = build_binary_cross_entropy,
                                        .link = "sigmoid",
                                        .example = R"({"type": "binary_cross_entropy", "label_smoothing": 0.1})",
                                        .example_output = "[4]",
                                        .example_target = "binary"};

}  // namespace perigee
