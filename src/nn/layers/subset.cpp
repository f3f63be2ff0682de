#include "src/graph/op.h"
#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kSubsetPositional[] = {"from", "to"};
constexpr Option kSubsetLayerOptions[] = {{"from", "integer", nullptr, "number of the first one"},
                                          {"to", "integer", nullptr, "number of the last one, included"},
                                          {"axis", "integer", "1", "the dimension; 1 are the channels"}};

std::vector<Value> build_subset(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const Value x = inputs[0];
  const int axis = static_cast<int>(options.integer_in("axis", 1, std::max(1, x.rank() - 1), 1));
  if (axis >= x.rank()) context.fail("has no such dimension", x.shape().text());
  const int64_t from = options.integer_in("from", 0, x.shape()[axis] - 1), to = options.integer_in("to", from, x.shape()[axis] - 1);
  std::vector<int64_t> start(static_cast<size_t>(x.rank()), 0), stop = x.shape().vector();
  start[static_cast<size_t>(axis)] = from;
  stop[static_cast<size_t>(axis)] = to + 1;
  return {slice(x, start, stop)};
}

}  // namespace

extern const LayerDef layer_subset;
const LayerDef layer_subset{.name = "subset",
                            .doc = "A range of channels (or of another dimension), both ends included; they count from 0.",
                            .example = R"({"type": "subset", "from": 1, "to": 3})",
                            .example_input = "[5, 2]",
                            .schema = layer_schema(kSubsetLayerOptions, kSubsetPositional),
                            .any_dtype = true,
                            .build = build_subset};

}  // namespace perigee
