#include "src/core/error.h"
#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_sparse_cross_entropy(Graph& graph, const Config& options, Value output, Value target) {
  class_target(options, output, target);  // says what does not fit
  if (target.rank() == output.rank() && target.shape() == output.shape())
    throw Error(ErrorKind::model, {.where = options.where(),
                                   .what = "the target must be class numbers",
                                   .got = target.type().text(),
                                   .hint = "cross_entropy takes distributions"});
  return class_cross_entropy(graph, options, output, target);
}

constexpr Option kSparseCrossEntropyOptions[] = {
    {"label_smoothing", "number", "0", "share of the target that is spread over all classes", {0, 1}},
    {"weights", "list of numbers", "1 each", "one number for each output or class"},
    kBalanceOption,
    kIgnoreOption};

}  // namespace

extern const LossDef loss_sparse_cross_entropy;
const LossDef loss_sparse_cross_entropy{.name = "sparse_cross_entropy",
                                        .doc = "cross_entropy of class numbers only.",
                                        .schema = {.options = kSparseCrossEntropyOptions},
                                        .build = build_sparse_cross_entropy,
                                        .link = "softmax",
                                        .example = R"({"type": "sparse_cross_entropy"})",
                                        .example_output = "[4]",
                                        .example_target = "class"};

}  // namespace perigee
