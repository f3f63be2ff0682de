#include "src/graph/op.h"
#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kUnstackPositional[] = {"parts"};
constexpr Option kUnstackOptions[] = {{"parts", "integer", nullptr, "how many batches were stacked"},
                                      {"index", "integer", "all", "the only one wanted, from 0"}};

std::vector<Value> build_unstack(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const Value x = inputs[0];
  const int64_t parts = options.integer_in("parts", 1, 1 << 16), index = options.integer_in("index", -1, parts - 1, -1);
  if (x.shape()[0] % parts != 0)
    context.fail("the batch is no stack of " + std::to_string(parts), std::to_string(x.shape()[0]) + " rows", "",
                 "put a stack layer with as many inputs in front");
  const int64_t rows = x.shape()[0] / parts;
  std::vector<Value> outputs;
  for (int64_t part = 0; part < parts; ++part) {
    if (index >= 0 && part != index) continue;
    std::vector<int64_t> start(static_cast<size_t>(x.rank()), 0), stop = x.shape().vector();
    start[0] = part * rows;
    stop[0] = start[0] + rows;
    outputs.push_back(slice(x, start, stop));
  }
  return outputs;
}

}  // namespace

extern const LayerDef layer_unstack;
const LayerDef layer_unstack{.name = "unstack",
                             .doc = "Takes a stack of `parts` batches apart: as many outputs, or the one that `index` names.",
                             .example = R"({"type": "unstack", "parts": 2})",
                             .example_input = "[3]",
                             .schema = layer_schema(kUnstackOptions, kUnstackPositional),
                             .any_dtype = true,
                             .build = build_unstack};

}  // namespace perigee
