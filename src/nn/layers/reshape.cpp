#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kReshapePositional[] = {"shape"};
constexpr Option kReshapeOptions[] = {{"shape", "list of integers", nullptr, "sizes without the batch; one may be -1"}};

std::vector<Value> build_reshape(LayerContext& context, std::span<const Value> inputs) {
  std::vector<int64_t> dims = context.options().integer_list("shape");
  if (dims.empty() || dims.size() >= kMaxRank)
    context.options().fail("shape", "must be a list of 1 to " + std::to_string(kMaxRank - 1) + " sizes");
  const int64_t features = product(inputs[0].shape(), 1);
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1 && open < 0) open = static_cast<int64_t>(i);
    else if (dims[i] < 1 || known > features)
      context.options().fail("shape", "has a size that does not fit", std::to_string(dims[i]),
                             "sizes whose product is " + std::to_string(features));
    else known *= dims[i];
  }
  if (open >= 0) dims[static_cast<size_t>(open)] = known == 0 ? 0 : features / known;
  if ((open < 0 && known != features) || (open >= 0 && features % known != 0))
    context.fail("the shape does not hold its input's features", Shape(dims).text(), std::to_string(features) + " features");
  const Value mask = context.mask(inputs[0]);
  if (mask && dims.back() != mask.shape()[1]) refuse_mask(context, mask, "leave the steps the last size");
  dims.insert(dims.begin(), inputs[0].shape()[0]);
  return {reshape(inputs[0], Shape(dims))};
}

}  // namespace

extern const LayerDef layer_reshape;
const LayerDef layer_reshape{.name = "reshape",
                             .doc = "The same features in another shape, without the batch; one size may be -1.",
                             .example = R"({"type": "reshape", "shape": [2, -1, 2]})",
                             .example_input = "[12]",
                             .schema = layer_schema(kReshapeOptions, kReshapePositional),
                             .any_dtype = true,
                             .build = build_reshape};

}  // namespace perigee
