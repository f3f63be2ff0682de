#include "src/nn/layers/common.h"
#include "src/nn/layers/gaussian_sample.h"
#include "src/nn/loss.h"

namespace perigee {
namespace {

constexpr Option kVaeOptions[] = {
    {"latent", "integer", nullptr, "dimensions of the code", {1, 1 << 20}},
    {"encoder", "list of layers", nullptr, "from the example to features of it; a dense layer behind makes means and variances of them"},
    {"decoder", "list of layers", nullptr, "from a code to the numbers that `reconstruction` takes, one for each of the example's or more"},
    {"reconstruction", "loss", "reconstruction_cross_entropy",
     "-log likelihood of the example: that loss for numbers in 0 .. 1, gaussian_likelihood, exponential_likelihood, composite, or any "
     "loss"},
    {"samples", "integer", "1", "codes that are drawn for each example in a step of training; the loss is their mean", {1, 64}},
    {"kl",
     "number or schedule",
     "1",
     "factor of the divergence from the standard normal (beta of a beta-VAE); a schedule that begins at 0 anneals it",
     {0, 1e9}}};

Json reconstruction_of(const Config& options) {
  const Json* given = options.raw("reconstruction");
  return given == nullptr || given->is_null() ? Json("reconstruction_cross_entropy") : *given;
}

// The decoder for the code of draw `number`: all have the same parameters, and each its own noise.
Value decoded(LayerContext& context, Value code, int64_t number) {
  Json layer = Json::object();
  layer.set("type", "sequential");
  layer.set("share", context.name() + ".decoder");
  layer.set("layers", *context.options().raw("decoder"));
  // A list of one: a sequence by itself would be taken apart, and its `share` lost.
  const std::vector<Value> made = context.sublayer(Json(Json::Array{layer}), "decoder" + std::to_string(number), std::span(&code, 1));
  if (made.size() != 1) context.options().fail("decoder", "must have one result", std::to_string(made.size()));
  return made[0];
}

std::vector<Value> build_vae(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  for (const char* key : {"encoder", "decoder"})
    if (options.raw(key) == nullptr) options.fail(key, "is missing", "", "a list of layers");
  const int64_t latent = options.integer("latent");
  const std::vector<Value> features = context.network(*options.raw("encoder"), "encoder", inputs);
  Json moments = Json::object();
  moments.set("type", "dense");
  moments.set("out", 2 * latent);
  moments.set("activation", "identity");  // whatever the network's defaults say
  const DiagonalGaussian code = diagonal_gaussian(context, context.sublayer(moments, "code", features).at(0));
  context.add_loss(divergence_from_standard(code), "kl");
  const Json reconstruction = reconstruction_of(options);
  const int64_t samples = context.training() ? options.integer("samples") : 1;
  Value output, loss;
  for (int64_t i = 1; i <= samples; ++i) {
    const Value z = context.training() ? reparameterised(context, code, "code" + std::to_string(i)) : code.mean;
    const Value made = decoded(context, z, i), target = made.rank() == 2 ? flatten(inputs[0]) : inputs[0];
    const Value each = build_loss(context.graph(), reconstruction, options.where() + ": reconstruction", made, target);
    loss = loss ? loss + each : each;
    if (!output) output = linked_output(reconstruction, made);
  }
  context.add_loss(samples > 1 ? loss / static_cast<double>(samples) : loss);
  return {output};
}

}  // namespace

extern const LayerDef layer_vae;
const LayerDef layer_vae{
    .name = "vae",
    .doc =
        "A variational autoencoder (Kingma & Welling 2014) as one layer: encoder, a diagonal normal distribution of codes, decoder. It "
        "adds -ELBO to the loss, so that the job's loss may be \"none\"; its output is what the decoder makes of the code: a draw in "
        "training, the mean in inference. The layer `code` inside gives means and then logarithms of variances.",
    .example = R"({"type": "vae", "latent": 2, "encoder": [{"type": "dense", "out": 4, "activation": "tanh"}],
      "decoder": [{"type": "dense", "out": 4, "activation": "tanh"}, {"type": "dense", "out": 10}],
      "reconstruction": "gaussian_likelihood", "samples": 2})",
    .example_input = "[5]",
    .schema = layer_schema(kVaeOptions),
    .build = build_vae};

}  // namespace perigee
