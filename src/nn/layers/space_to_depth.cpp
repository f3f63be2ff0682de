#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kSpaceToDepthPositional[] = {"block"};
constexpr Option kSpaceToDepthOptions[] = {{"block", "integer", "2", "side of a block"}};

std::vector<Value> build_space_to_depth(LayerContext& context, std::span<const Value> inputs) {
  require_image(context, inputs[0], 2);
  const Value x = inputs[0];
  const int64_t b = context.options().integer_in("block", 1, 1 << 16, 2), n = x.shape()[0], c = x.shape()[1], h = x.shape()[2],
                w = x.shape()[3];
  if (h % b != 0 || w % b != 0)
    context.fail("the image cannot be cut into blocks of " + std::to_string(b), size_text({h, w}, 2), "multiples of " + std::to_string(b));
  const Value blocks = transpose(reshape(x, Shape{n, c, h / b, b, w / b, b}), {0, 3, 5, 1, 2, 4});
  return {reshape(blocks, Shape{n, c * b * b, h / b, w / b})};
}

}  // namespace

extern const LayerDef layer_space_to_depth;
const LayerDef layer_space_to_depth{
    .name = "space_to_depth",
    .doc =
        "Moves blocks of positions into channels: C x H x W becomes C b^2 x H / b x W / b, the position in the block before the channel.",
    .example = R"({"type": "space_to_depth", "block": 2})",
    .example_input = "[3, 4, 6]",
    .schema = layer_schema(kSpaceToDepthOptions, kSpaceToDepthPositional),
    .build = build_space_to_depth};

}  // namespace perigee
