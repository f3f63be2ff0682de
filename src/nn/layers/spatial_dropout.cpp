#include <algorithm>

#include "src/graph/op.h"
#include "src/nn/layers/common.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

constexpr const char* kSpatialDropoutPositional[] = {"rate"};
constexpr Option kSpatialDropoutOptions[] = {{"rate", "number", "0.5", "probability with which a value is dropped", {0, 0.999999}}};

std::vector<Value> build_spatial_dropout(LayerContext& context, std::span<const Value> inputs) {
  if (!context.training()) return {inputs[0]};
  const double rate = context.options().number("rate");
  const Value x = inputs[0];
  if (x.rank() < 3) context.fail("needs channels and positions", "", "", "use dropout");
  // One draw for each channel: the shape of the first position.
  std::vector<int64_t> stop = x.shape().vector();
  std::fill(stop.begin() + 2, stop.end(), 1);
  const Value first = slice(x, {}, stop);
  return {dropped(x, uniform_like(context, "mask", first), rate)};
}

}  // namespace

extern const LayerDef layer_spatial_dropout;
const LayerDef layer_spatial_dropout{.name = "spatial_dropout",
                                     .stem = "dropout",
                                     .doc = "Drops whole channels in training, each with probability `rate`.",
                                     .example = R"({"type": "spatial_dropout", "rate": 0.3})",
                                     .example_input = "[6, 2, 2]",
                                     .schema = layer_schema(kSpatialDropoutOptions, kSpatialDropoutPositional),
                                     .build = build_spatial_dropout,
                                     .step_use = each_step};

}  // namespace perigee
