#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kCentersPositional[] = {"classes"};
constexpr Option kCentersOptions[] = {{"classes", "integer", nullptr, "each has a centre", {1, 1 << 20}}};

// |x|^2 - 2 x c + |c|^2 would lose what is small beside |x|; the differences themselves are features x classes numbers an example.
std::vector<Value> build_centers(LayerContext& context, std::span<const Value> inputs) {
  const Value x = flatten(inputs[0]);
  const int64_t n = x.shape()[0], features = x.shape()[1], classes = context.options().integer("classes");
  const Value centers = context.parameter("weight", Shape{classes, features}, ParameterRole::weight, features, classes, 0.0);
  const Value differences = reshape(x, Shape{n, 1, features}) - reshape(centers, Shape{1, classes, features});
  return {reduce_sum(square(differences), {2})};
}

}  // namespace

extern const LayerDef layer_centers;
const LayerDef layer_centers{
    .name = "centers",
    .doc =
        "The squared distance of features from the learned centre of each class, for the loss center (Wen et al. 2016). As a second "
        "output beside a classifier it draws the features of a class together; lr_scale is how fast the centres follow.",
    .example = R"({"type": "centers", "classes": 3})",
    .example_input = "[4]",
    .schema = layer_schema(kCentersOptions, kCentersPositional),
    .build = build_centers};

}  // namespace perigee
