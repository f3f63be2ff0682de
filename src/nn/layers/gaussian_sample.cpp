#include "src/nn/layers/gaussian_sample.h"

#include "src/nn/layers/common.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

constexpr const char* kGaussianSamplePositional[] = {"kl"};
constexpr Option kGaussianSampleOptions[] = {
    {"kl",
     "number or schedule",
     "1",
     "factor of the divergence from the standard normal in the loss of an example; 0: none (beta of a beta-VAE)",
     {0, 1e9}}};

std::vector<Value> build_gaussian_sample(LayerContext& context, std::span<const Value> inputs) {
  const DiagonalGaussian code = diagonal_gaussian(context, inputs[0]);
  context.add_loss(divergence_from_standard(code), "kl");
  return {context.training() ? reparameterised(context, code, "code") : code.mean};
}

Value half(Value x, int64_t begin, int64_t end) { return slice(x, std::array{int64_t{0}, begin}, std::array{x.shape()[0], end}); }

}  // namespace

DiagonalGaussian diagonal_gaussian(LayerContext& context, Value x) {
  const int64_t numbers = x.rank() > 1 ? x.shape()[1] : 1;
  if (numbers % 2 != 0 || numbers == 0)
    context.fail("needs as many means as logarithms of variances", example_text(x), "an even number of features",
                 "put dense { 2 * dimensions of the code } in front");
  return {half(x, 0, numbers / 2), half(x, numbers / 2, numbers)};
}

Value reparameterised(LayerContext& context, const DiagonalGaussian& code, const std::string& purpose) {
  return code.mean + exp(code.log_variance * 0.5) * normal_like(context, purpose, code.mean, 0, 1);
}

Value divergence_from_standard(const DiagonalGaussian& code) {
  const Value terms = square(code.mean) + exp(code.log_variance) - 1.0 - code.log_variance;
  return reduce_sum(flatten(terms), {1}) * 0.5;
}

extern const LayerDef layer_gaussian_sample;
const LayerDef layer_gaussian_sample{
    .name = "gaussian_sample",
    .stem = "sample",
    .doc =
        "The middle of a variational autoencoder (Kingma & Welling 2014): takes means and then as many logarithms of variances, draws from "
        "that normal distribution in training, and gives its mean in inference. Adds the divergence from the standard normal to the loss: "
        "with a reconstruction that is a -log likelihood, such as reconstruction_cross_entropy, the loss is -ELBO.",
    .example = R"({"type": "gaussian_sample", "kl": 0.5})",
    .example_input = "[6]",
    .schema = layer_schema(kGaussianSampleOptions, kGaussianSamplePositional),
    .build = build_gaussian_sample};

}  // namespace perigee
