#include "src/core/error.h"
#include "src/graph/op.h"
#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_mixture_density(Graph&, const Config& options, Value output, Value target) {
  const int64_t parts = options.integer("mixtures");
  const Value x = flatten_example(output), y = cast(flatten_example(target), x.dtype());
  const int64_t n = x.shape()[0], labels = y.shape()[1];
  if (y.shape()[0] != n || x.shape()[1] != parts * (2 + labels))
    throw Error(ErrorKind::model, {.where = options.where(),
                                   .what = "the network's output does not fit",
                                   .got = x.shape().text(),
                                   .expected = std::to_string(parts * (2 + labels)) + " outputs: " + std::to_string(parts) + " x (2 + " +
                                               std::to_string(labels) + ")"});
  const auto range = [&](int64_t from, int64_t to) { return slice(x, std::array{int64_t{0}, from}, std::array{n, to}); };
  const Value log_share = log_softmax(range(0, parts)), log_sigma = range(parts, 2 * parts);
  const Value mean = reshape(range(2 * parts, parts * (2 + labels)), Shape{n, parts, labels});
  const Value distance = reduce_sum(square(reshape(y, Shape{n, 1, labels}) - mean), {2});
  constexpr double kHalfLogTwoPi = 0.91893853320467274178;
  const double dims = static_cast<double>(labels);
  const Value terms = log_share - dims * log_sigma - 0.5 * (distance * exp(-2.0 * log_sigma)) - dims * kHalfLogTwoPi;
  // log of a sum of exponentials, around the largest.
  const Value largest = reduce_max(terms, {1}, true);
  return -(log(reduce_sum(exp(terms - largest), {1})) + reshape(largest, Shape{n}));
}

constexpr Option kMixtureDensityOptions[] = {{"mixtures", "integer", nullptr, "number of normals", {1, 65536}}};

}  // namespace

extern const LossDef loss_mixture_density;
const LossDef loss_mixture_density{.name = "mixture_density",
                                   .doc =
                                       "-log likelihood of the target under a mixture of normals. The output holds, for K = `mixtures` "
                                       "parts of a target of L numbers: K logits, K log standard deviations, K L means. Bishop 1994.",
                                   .schema = {.options = kMixtureDensityOptions},
                                   .build = build_mixture_density,
                                   .example = R"({"type": "mixture_density", "mixtures": 2})",
                                   .example_output = "[8]",
                                   .example_target = "pair"};

}  // namespace perigee
