#include "src/graph/op.h"
#include "src/nn/layers/borders.h"
#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kCroppingPositional[] = {"cropping"};
constexpr Option kCroppingOptions[] = {{"cropping", "integer, {height, width} or {top, bottom, left, right}", nullptr,
                                        "rows and columns at the borders; for sequences an integer or {left, right}"}};

std::vector<Value> build_cropping(LayerContext& context, std::span<const Value> inputs) {
  refuse_mask(context, context.mask(inputs[0]), "take conv1d, or give sequences of one length");
  const Borders borders = read_borders(context, "cropping", inputs[0]);
  std::vector<int64_t> stop = inputs[0].shape().vector();
  for (size_t i = 2; i < stop.size(); ++i) {
    stop[i] -= borders.after[i];
    if (stop[i] <= borders.before[i])
      context.fail("nothing is left", std::to_string(borders.before[i] + borders.after[i]) + " cut off",
                   "less than " + std::to_string(inputs[0].shape()[static_cast<int>(i)]));
  }
  return {slice(inputs[0], borders.before, stop)};
}

}  // namespace

extern const LayerDef layer_cropping;
const LayerDef layer_cropping{.name = "cropping",
                              .stem = "crop",
                              .doc = "Cuts the borders off images or sequences.",
                              .example = R"({"type": "cropping", "cropping": [1, 0, 0, 2]})",
                              .example_input = "[2, 4, 5]",
                              .schema = layer_schema(kCroppingOptions, kCroppingPositional),
                              .build = build_cropping};

}  // namespace perigee
