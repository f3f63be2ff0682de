#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_multi_label(Graph&, const Config& options, Value output, Value target) {
  const double smoothing = options.number("label_smoothing");
  const Value y = smoothed_yes(flatten_example(matched_target(options, output, target)), smoothing), x = flatten_example(output),
              rest = 1.0 - y;
  // Both sums are moved by the same amount, so that neither overflows alone.
  const Value middle = reduce_mean(x, {1}, true);
  const Value yes = reduce_sum(y * exp(middle - x), {1}), no = reduce_sum(rest * exp(x - middle), {1});
  const Value pairs = maximum(reduce_sum(y, {1}) * reduce_sum(rest, {1}), number_like(y, 1));
  return yes * no / pairs;
}

constexpr Option kMultiLabelOptions[] = {kSmoothingOption};

}  // namespace

extern const LossDef loss_multi_label;
const LossDef loss_multi_label{.name = "multi_label",
                               .doc =
                                   "Pairwise ranking of labels that apply before those that do not (BP-MLL). Zhang and Zhou 2006. Option: "
                                   "label_smoothing, with which each label is another one with half this probability.",
                               .schema = {.options = kMultiLabelOptions},
                               .build = build_multi_label,
                               .example = R"({"type": "multi_label", "label_smoothing": 0.1})",
                               .example_output = "[4]",
                               .example_target = "binary"};

}  // namespace perigee
