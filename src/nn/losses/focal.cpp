#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_focal(Graph& graph, const Config& options, Value output, Value target) {
  const double gamma = options.number("gamma"), smoothing = options.number("label_smoothing");
  const bool binary = options.boolean("binary", output.rank() < 2 || output.shape()[1] == 1);
  const auto focused = [&](Value log_p) {
    const Value miss = maximum(-graph.apply("expm1", {log_p}), number_like(log_p, 1e-12));
    return -(graph.apply("pow", {miss, number_like(log_p, gamma)}) * log_p);
  };
  if (binary) {
    const Value inner = before_link(output, "sigmoid"), x = inner ? inner : output,
                y = smoothed_yes(matched_target(options, output, target), smoothing);
    const double alpha = options.number("alpha");
    // log p of a yes is -softplus(-x), of a no -softplus(x).
    const Value yes = focused(-softplus(-x)), no = focused(-softplus(x));
    return reduced(options, alpha * (y * yes) + (1 - alpha) * ((1.0 - y) * no));
  }
  const Value inner = before_link(output, "softmax"), logits = inner ? inner : output;
  Value q = class_distribution(graph, options, logits, target);
  if (smoothing > 0) q = q * (1 - smoothing) + smoothing / static_cast<double>(logits.shape()[1]);
  Value terms = q * focused(log_softmax(logits));
  if (const Value weights = output_weights(options, output)) terms = weights * terms;
  return example_mean(reduce_sum(terms, {1}));
}

constexpr Option kFocalOptions[] = {{"gamma", "number", "2", "how much easy examples count less", {0, 100}},
                                    {"binary", "boolean", "true with one output", "each output is a yes or no"},
                                    {"alpha", "number", "0.25", "weight of yes in the binary form", {0, 1}},
                                    {"label_smoothing", "number", "0", "share of the target that is spread over all classes", {0, 1}},
                                    {"weights", "list of numbers", "1 each", "one number for each output or class"},
                                    kBalanceOption,
                                    {"reduction", "name", "mean", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_focal;
const LossDef loss_focal{
    .name = "focal",
    .doc =
        "Cross entropy that counts hard examples more: (1 - p)^gamma times it. Lin et al. 2017. Options: gamma (2), "
        "alpha (of positives, for binary outputs), binary (true: each output is a yes or no of its own), label_smoothing, "
        "weights.",
    .schema = {.options = kFocalOptions},
    .build = build_focal,
    .link = "softmax",
    .example = R"({"type": "focal", "gamma": 1.5})",
    .example_output = "[4]",
    .example_target = "class"};

}  // namespace perigee
