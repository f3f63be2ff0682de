#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kEmbeddingPositional[] = {"size", "out"};
constexpr Option kEmbeddingOptions[] = {
    {"size", "integer", nullptr, "number of different indices; they count from 0"},
    {"out", "integer", nullptr, "features of each", {1}},
    {"bias", "boolean", "false", "adds a learned number to each feature"},
    {"rows",
     "name",
     "exact from 8,192 rows on, else dense",
     "which rows a step updates. dense: all; exact: those that are read, after the steps that they missed, with "
     "the bits of dense; lazy: those whose gradient is not zero, and no states of others, as PyTorch's SparseAdam: "
     "the same as dense for sgd without momentum and adagrad without decay",
     {},
     {"dense", "exact", "lazy"}},
    kActivationOption};

constexpr int64_t kManyRows = 8192;  // so few as are below are updated in no time

RowUpdate rows_of(const Config& options, int64_t size) {
  if (!options.has("rows")) return size >= kManyRows ? RowUpdate::exact : RowUpdate::dense;
  const std::string rows = options.choice("rows");
  return rows == "exact" ? RowUpdate::exact : rows == "lazy" ? RowUpdate::lazy : RowUpdate::dense;
}

std::vector<Value> build_embedding(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const int64_t size = options.integer_in("size", 1, int64_t{1} << 31), out = options.integer_in("out", 1, 1 << 20);
  Value indices = cast(inputs[0], Dtype::i64);
  if (indices.rank() > 2) context.fail("takes one index, or one list of them, for each example", indices.shape().text());
  if (indices.rank() == 2 && indices.shape()[1] == 1) indices = reshape(indices, Shape{indices.shape()[0]});
  const Value weight = context.parameter("weight", Shape{size, out}, ParameterRole::weight, size, out, "xavier");
  context.update_rows("weight", rows_of(options, size));
  Value y = gather(weight, indices, 0);
  if (y.rank() == 3) y = transpose(y, {0, 2, 1});
  if (options.boolean("bias")) y = y + per_channel(context.parameter("bias", Shape{out}, ParameterRole::bias, size, out, 0.0), y.rank());
  return {finish(context, y)};
}

}  // namespace

extern const LayerDef layer_embedding;
const LayerDef layer_embedding{
    .name = "embedding",
    .stem = "embed",
    .doc = "A learned vector for each index: [n] or [n, 1] gives `out` features, a list of L indices gives out x L.",
    .example = R"({"type": "embedding", "size": 3, "out": 4})",
    .example_input = "[5]",
    .schema = layer_schema(kEmbeddingOptions, kEmbeddingPositional),
    .any_dtype = true,
    .build = build_embedding,
    .step_use = each_step};

}  // namespace perigee
