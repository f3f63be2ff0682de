#include "src/nn/layers/capsule.h"
#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kPrimaryCapsulesPositional[] = {"channels"};
constexpr Option kPrimaryCapsulesOptions[] = {{"channels", "integer", "32", "kinds of capsules at each place", {1, 1 << 16}},
                                              {"size", "integer", "8", "numbers of each capsule", {1, 1 << 16}},
                                              {"kernel", "integer or {height, width}", "9", "size of the window", {1}},
                                              {"stride", "integer or {height, width}", "2", "step of the window", {1}},
                                              kPaddingOption,
                                              kActivationOption};

std::vector<Value> build_primary_capsules(LayerContext& context, std::span<const Value> inputs) {
  require_image(context, inputs[0], 2);
  const Config& options = context.options();
  const int64_t channels = options.integer("channels"), size = options.integer("size");
  Json conv = Json::object();
  conv.set("type", "conv2d");
  conv.set("out", channels * size);
  conv.set("kernel", options.has("kernel") ? *options.raw("kernel") : Json(9));
  conv.set("stride", options.has("stride") ? *options.raw("stride") : Json(2));
  conv.set("activation", options.has("activation") ? *options.raw("activation") : Json("identity"));
  if (options.has("padding")) conv.set("padding", *options.raw("padding"));
  const Value y = context.sublayer(conv, "conv", inputs).at(0);
  const int64_t n = y.shape()[0], places = y.shape()[2] * y.shape()[3];
  const Value vectors = transpose(reshape(y, Shape{n, channels, size, places}), {0, 1, 3, 2});
  return {squash(reshape(vectors, Shape{n, channels * places, size}))};
}

}  // namespace

extern const LayerDef layer_primary_capsules;
const LayerDef layer_primary_capsules{
    .name = "primary_capsules",
    .doc =
        "The lowest capsules: a convolution whose channels at each place are `channels` vectors of `size` numbers, squashed to lengths "
        "below 1. Gives count x size.",
    .example = R"({"type": "primary_capsules", "channels": 2, "size": 3, "kernel": 3, "stride": 2})",
    .example_input = "[2, 5, 5]",
    .schema = layer_schema(kPrimaryCapsulesOptions, kPrimaryCapsulesPositional),
    .build = build_primary_capsules};

}  // namespace perigee
