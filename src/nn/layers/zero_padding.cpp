#include "src/graph/op.h"
#include "src/nn/layers/borders.h"
#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kZeroPaddingPositional[] = {"padding"};
constexpr Option kZeroPaddingOptions[] = {{"padding", "integer, {height, width} or {top, bottom, left, right}", nullptr,
                                           "rows and columns at the borders; for sequences an integer or {left, right}"}};

std::vector<Value> build_zero_padding(LayerContext& context, std::span<const Value> inputs) {
  refuse_mask(context, context.mask(inputs[0]), "take conv1d, or give sequences of one length");
  const Borders borders = read_borders(context, "padding", inputs[0]);
  Json attrs = Json::object();
  attrs.set("before", ints_json(borders.before));
  attrs.set("after", ints_json(borders.after));
  return {context.graph().apply("pad", {inputs[0]}, std::move(attrs))};
}

}  // namespace

extern const LayerDef layer_zero_padding;
const LayerDef layer_zero_padding{.name = "zero_padding",
                                  .stem = "pad",
                                  .doc = "Zeros around images or sequences.",
                                  .example = R"({"type": "zero_padding", "padding": [1, 0, 2, 1]})",
                                  .example_input = "[2, 3, 2]",
                                  .schema = layer_schema(kZeroPaddingOptions, kZeroPaddingPositional),
                                  .build = build_zero_padding};

}  // namespace perigee
