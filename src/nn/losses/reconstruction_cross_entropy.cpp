#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_reconstruction_cross_entropy(Graph&, const Config& options, Value output, Value target) {
  return reduced(options, binary_terms(options, output, target));
}

constexpr Option kReconstructionCrossEntropyOptions[] = {
    {"label_smoothing", "number", "0", "share of the target that is spread over all classes", {0, 1}},
    {"weights", "list of numbers", "1 each", "one number for each output or class"},
    {"reduction", "name", "sum", "inside the example", {}, {"mean", "sum"}}};

}  // namespace

extern const LossDef loss_reconstruction_cross_entropy;
const LossDef loss_reconstruction_cross_entropy{
    .name = "reconstruction_cross_entropy",
    .doc = "Binary cross entropy summed over the outputs, as autoencoders use it. Options as binary_cross_entropy.",
    .schema = {.options = kReconstructionCrossEntropyOptions},
    .build = build_reconstruction_cross_entropy,
    .link = "sigmoid",
    .example = R"({"type": "reconstruction_cross_entropy"})",
    .example_output = "[4]",
    .example_target = "probability"};

}  // namespace perigee
