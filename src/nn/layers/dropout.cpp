#include "src/nn/layers/common.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

constexpr const char* kDropoutPositional[] = {"rate"};
constexpr Option kDropoutOptions[] = {{"rate", "number", "0.5", "probability with which a value is dropped", {0, 0.999999}}};

std::vector<Value> build_dropout(LayerContext& context, std::span<const Value> inputs) {
  if (!context.training()) return {inputs[0]};
  const double rate = context.options().number("rate");
  return {dropped(inputs[0], uniform_like(context, "mask", inputs[0]), rate)};
}

}  // namespace

extern const LayerDef layer_dropout;
const LayerDef layer_dropout{.name = "dropout",
                             .stem = "dropout",
                             .doc = "Sets values to zero in training, each with probability `rate`; the others grow to keep the mean.",
                             .example = R"({"type": "dropout", "rate": 0.3})",
                             .example_input = "[12]",
                             .schema = layer_schema(kDropoutOptions, kDropoutPositional),
                             .build = build_dropout,
                             .step_use = each_step};

}  // namespace perigee
