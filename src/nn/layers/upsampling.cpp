#include "src/nn/layers/common.h"
#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kUpsamplingPositional[] = {"size"};
constexpr Option kUpsamplingOptions[] = {{"size", "integer or {height, width}", "2", "how often each is repeated"}};

std::vector<Value> build_upsampling(LayerContext& context, std::span<const Value> inputs) {
  refuse_mask(context, context.mask(inputs[0]), "take conv1d, or give sequences of one length");
  const Value x = inputs[0];
  const int dims = x.rank() - 2;
  if (dims != 1 && dims != 2) context.fail("needs an image or a sequence", x.shape().text());
  const Pair size = read_pair(context, "size", dims, 2);
  std::vector<int64_t> apart{x.shape()[0], x.shape()[1]}, repeated = apart, joined = apart;
  for (int i = 0; i < dims; ++i) {
    const int64_t length = x.shape()[i + 2], times = size[static_cast<size_t>(dims == 1 ? 1 : i)];
    apart.insert(apart.end(), {length, 1});
    repeated.insert(repeated.end(), {length, times});
    joined.push_back(length * times);
  }
  return {reshape(broadcast_to(reshape(x, Shape(apart)), Shape(repeated)), Shape(joined))};
}

}  // namespace

extern const LayerDef layer_upsampling;
const LayerDef layer_upsampling{.name = "upsampling",
                                .stem = "up",
                                .doc = "Repeats rows and columns of images (or steps of sequences) `size` times.",
                                .example = R"({"type": "upsampling", "size": [2, 3]})",
                                .example_input = "[2, 3, 2]",
                                .schema = layer_schema(kUpsamplingOptions, kUpsamplingPositional),
                                .build = build_upsampling};

}  // namespace perigee
