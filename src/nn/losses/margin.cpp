#include "src/nn/losses/common.h"

namespace perigee {
namespace {

constexpr Option kMarginOptions[] = {{"high", "number", "0.9", "length that the class which is there should have at least", {0, 1}},
                                     {"low", "number", "0.1", "length that the others should have at most", {0, 1}},
                                     {"down", "number", "0.5", "factor of the others' part", {0, 1e6}}};

Value build_margin(Graph& graph, const Config& options, Value output, Value target) {
  const Value there = class_distribution(graph, options, output, target);
  const Value missing = square(relu(options.number("high") - output)), wrong = square(relu(output - options.number("low")));
  const Value terms = there * missing + (1.0 - there) * wrong * options.number("down");
  return reduce_sum(flatten_example(terms), {1});
}

}  // namespace

extern const LossDef loss_margin;
const LossDef loss_margin{.name = "margin",
                          .doc =
                              "Of lengths of capsules, one for each class: those of classes that are there should be long, the others "
                              "short (Sabour et al. 2017).",
                          .schema = {.options = kMarginOptions},
                          .build = build_margin,
                          .example = R"({"type": "margin", "down": 0.4})",
                          .example_output = "[4]",
                          .example_target = "class",
                          .example_low = 0.02,
                          .example_high = 0.98};

}  // namespace perigee
