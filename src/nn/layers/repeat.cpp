#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kRepeatPositional[] = {"n"};
constexpr Option kRepeatOptions[] = {{"n", "integer", "1", "number of steps"}};

std::vector<Value> build_repeat(LayerContext& context, std::span<const Value> inputs) {
  const Value x = flatten(inputs[0]);
  const int64_t n = context.options().integer_in("n", 1, 1 << 20, 1);
  return {broadcast_to(reshape(x, Shape{x.shape()[0], x.shape()[1], 1}), Shape{x.shape()[0], x.shape()[1], n})};
}

}  // namespace

extern const LayerDef layer_repeat;
const LayerDef layer_repeat{.name = "repeat",
                            .doc = "Repeats a row of features: F becomes F x n, a sequence of n equal steps.",
                            .example = R"({"type": "repeat", "n": 3})",
                            .example_input = "[4]",
                            .schema = layer_schema(kRepeatOptions, kRepeatPositional),
                            .any_dtype = true,
                            .build = build_repeat};

}  // namespace perigee
