#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_kl_divergence(Graph&, const Config& options, Value output, Value target) {
  const Value inner = before_link(output, "softmax"), logits = inner ? inner : output;
  const double smoothing = options.number("label_smoothing");
  Value y = matched_target(options, output, target);
  if (smoothing > 0) y = y * (1 - smoothing) + smoothing / static_cast<double>(y.shape()[1]);
  const Value log_p = log_softmax(logits);
  // y log y is 0 at 0.
  const Value entropy = y * log(maximum(y, number_like(y, 1e-30)));
  return reduced(options, entropy - y * log_p);
}

constexpr Option kKlDivergenceOptions[] = {kSmoothingOption,
                                           {"weights", "list of numbers", "1 each", "one number for each output or class"},
                                           {"reduction", "name", "sum", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_kl_divergence;
const LossDef loss_kl_divergence{
    .name = "kl_divergence",
    .doc =
        "Kullback-Leibler divergence of the output, as softmax, from the target distribution. Takes logits; a "
        "softmax as the last layer is looked through. Options: label_smoothing, weights, reduction (\"mean\" or \"sum\").",
    .schema = {.options = kKlDivergenceOptions},
    .build = build_kl_divergence,
    .link = "softmax",
    .example = R"({"type": "kl_divergence", "label_smoothing": 0.1})",
    .example_output = "[4]",
    .example_target = "probability"};

}  // namespace perigee
