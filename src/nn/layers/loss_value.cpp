#include "src/nn/layers/common.h"
#include "src/nn/loss.h"

namespace perigee {
namespace {

constexpr const char* kLossValuePositional[] = {"loss"};
constexpr Option kLossValueOptions[] = {
    {"loss", "loss", nullptr, "of the first input, as a network's output, and the second as its target"}};

std::vector<Value> build_loss_value(LayerContext& context, std::span<const Value> inputs) {
  const Json* loss = context.options().raw("loss");
  if (loss == nullptr) context.options().fail("loss", "is missing", "", "a loss, such as \"mse\"");
  const Value output = inputs[0].dtype() == context.dtype() ? inputs[0] : cast(inputs[0], context.dtype());
  const Value each = build_loss(context.graph(), *loss, context.options().where() + ": loss", output, inputs[1]);
  return {reshape(each, Shape{each.shape()[0], 1})};
}

}  // namespace

extern const LayerDef layer_loss_value;
const LayerDef layer_loss_value{
    .name = "loss_value",
    .stem = "loss",
    .doc =
        "The loss of each example as a number that a network gives: of what one node makes, with what another does as the target. "
        "Scores of anomalies are such: what cannot be restored is unusual.",
    .example = R"({"type": "loss_value", "loss": "mse"})",
    .example_input = "[[5], [5]]",
    .schema = layer_schema(kLossValueOptions, kLossValuePositional),
    .min_inputs = 2,
    .max_inputs = 2,
    .any_dtype = true,
    .build = build_loss_value};

}  // namespace perigee
