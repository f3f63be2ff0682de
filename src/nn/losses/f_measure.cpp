#include "src/core/error.h"
#include "src/graph/op.h"
#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_f_measure(Graph& graph, const Config& options, Value output, Value target) {
  const double beta = options.number("beta"), b2 = beta * beta;
  Value p, y;
  if (output.rank() == 2 && output.shape()[1] == 2) {
    const Value both = before_link(output, "softmax") ? output : softmax(output);
    const auto second = [&](Value v) { return reshape(slice(v, std::array<int64_t, 2>{0, 1}), Shape{v.shape()[0]}); };
    p = second(both);
    y = second(class_distribution(graph, options, output, target));
  } else {
    if (output.rank() > 1 && output.shape().elements() != output.shape()[0])
      throw Error(
          ErrorKind::model,
          {.where = options.where(), .what = "f_measure is for yes and no", .got = output.shape().text(), .expected = "1 or 2 outputs"});
    const Value probability = before_link(output, "sigmoid") ? output : sigmoid(output);
    p = reshape(probability, Shape{output.shape()[0]});
    y = reshape(matched_target(options, output, target), Shape{output.shape()[0]});
  }
  y = smoothed_yes(y, options.number("label_smoothing"));
  const Value hits = reduce_sum(y * p, {0}, true), found = reduce_sum(p, {0}, true), there = reduce_sum(y, {0}, true);
  const Value f = (1 + b2) * hits / (b2 * there + found + 1e-12);
  return broadcast_to(1.0 - f, Shape{output.shape()[0]});
}

constexpr Option kFMeasureOptions[] = {kSmoothingOption, {"beta", "number", "1", "weight of recall", {1e-6, 1e6}}};

}  // namespace

extern const LossDef loss_f_measure;
const LossDef loss_f_measure{.name = "f_measure",
                             .doc =
                                 "1 - F-beta of the batch, from probabilities of a yes (sigmoid of one output, or the second of two "
                                 "softmax outputs). The batch is taken as a whole. Options: beta (1), label_smoothing.",
                             .schema = {.options = kFMeasureOptions},
                             .build = build_f_measure,
                             .link = "sigmoid",
                             .whole_batch = true,
                             .example = R"({"type": "f_measure", "beta": 2, "label_smoothing": 0.1})",
                             .example_output = "[1]",
                             .example_target = "binary"};

}  // namespace perigee
