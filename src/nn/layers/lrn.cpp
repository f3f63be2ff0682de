#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kLrnPositional[] = {"size"};
constexpr Option kLrnOptions[] = {{"size", "integer", "5", "channels in the window", {1, 4096}},
                                  {"alpha", "number", "1e-4", "weight of the squares", {0, 1e6}},
                                  {"beta", "number", "0.75", "the power", {0, 100}},
                                  {"k", "number", "2", "added to the squares", {1e-6, 1e6}}};

std::vector<Value> build_lrn(LayerContext& context, std::span<const Value> inputs) {
  if (inputs[0].rank() < 2) context.fail("needs channels to normalise across", "a single number");
  const Config& options = context.options();
  Json attrs = Json::object();
  attrs.set("size", options.integer("size"));
  attrs.set("alpha", options.number("alpha"));
  attrs.set("beta", options.number("beta"));
  attrs.set("k", options.number("k"));
  return {context.graph().apply("lrn", {inputs[0]}, std::move(attrs))};
}

}  // namespace

extern const LayerDef layer_lrn;
const LayerDef layer_lrn{
    .name = "lrn",
    .doc = "Local response normalisation: divides by the size of neighbouring channels. alpha is not divided by the window.",
    .example = R"({"type": "lrn", "size": 3, "alpha": 0.2})",
    .example_input = "[5, 3, 2]",
    .schema = layer_schema(kLrnOptions, kLrnPositional),
    .build = build_lrn};

}  // namespace perigee
