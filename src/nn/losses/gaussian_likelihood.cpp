#include "src/core/error.h"
#include "src/nn/losses/common.h"

namespace perigee {
namespace {

constexpr double kLogTwoPi = 1.8378770664093454836;

Value build_gaussian_likelihood(Graph&, const Config& options, Value output, Value target) {
  const Value x = flatten_example(output), y = cast(flatten_example(target), x.dtype());
  const int64_t n = x.shape()[0], numbers = y.shape()[1];
  if (y.shape()[0] != n || x.shape()[1] != 2 * numbers)
    throw Error(ErrorKind::model, {.where = options.where(),
                                   .what = "the outputs are not a mean and a logarithm of a variance for each number of the target",
                                   .got = std::to_string(x.shape()[1]) + " outputs, " + std::to_string(numbers) + " numbers",
                                   .expected = std::to_string(2 * numbers) + " outputs"});
  const auto range = [&](int64_t from, int64_t to) { return slice(x, std::array{int64_t{0}, from}, std::array{n, to}); };
  const Value mean = range(0, numbers), log_variance = range(numbers, 2 * numbers);
  return reduce_sum(log_variance + square(y - mean) * exp(-log_variance) + kLogTwoPi, {1}) * 0.5;
}

}  // namespace

extern const LossDef loss_gaussian_likelihood;
const LossDef loss_gaussian_likelihood{
    .name = "gaussian_likelihood",
    .doc =
        "-log likelihood of the target under independent normal distributions: of D numbers, the outputs are D means, then D logarithms "
        "of variances.",
    .build = build_gaussian_likelihood,
    .outputs_per_number = 2,
    .example = R"({"type": "gaussian_likelihood"})",
    .example_output = "[4]",
    .example_target = "pair"};

}  // namespace perigee
