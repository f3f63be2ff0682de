// Bands of rows and of steps become `fill` in training (Park et al. 2019, "SpecAugment", without warping): the transform of this name where
// features are made in the network.
#include <algorithm>

#include "src/graph/op.h"
#include "src/nn/layers/steps.h"
#include "src/nn/noise.h"

namespace perigee {
namespace {

constexpr const char* kSpecAugmentLayerPositional[] = {"rows"};
constexpr Option kSpecAugmentLayerOptions[] = {
    {"rows", "integer", "8", "widest band of rows, which are frequencies or coefficients", {0, 100000}},
    {"steps", "integer", "20", "longest band of steps", {0, 8388607}},
    {"row_masks", "integer", "1", "bands of rows", {0, 10}},
    {"step_masks", "integer", "1", "bands of steps", {0, 10}},
    {"fill", "number", "0", "what stands there then"}};

// The places 0, 1, ... along dimension `axis` of three.
Value places_along(LayerContext& context, Value x, int axis) {
  std::vector<double> places;
  for (int64_t i = 0; i < x.shape()[axis]; ++i) places.push_back(static_cast<double>(i));
  const int64_t count = x.shape()[axis];
  return context.graph().constant(Tensor::from(axis == 1 ? Shape{1, count, 1} : Shape{1, 1, count}, places).to(x.dtype()));
}

// `x` with `fill` in one band of places along `axis`, at most `widest` of the `size` [N, 1, 1] that there are; each example has its own.
Value without_band(LayerContext& context, Value x, int axis, const std::string& purpose, Value size, double widest, double fill) {
  const int64_t stop[] = {x.shape()[0], 1, 1};
  const Value one = slice(x, {}, stop), limit = minimum(size, full_like(size, widest));
  const auto whole = [&](const char* draw, Value count) {
    return minimum(x.graph().apply("floor", {uniform_like(context, purpose + draw, one) * (count + 1)}),
                   count);  // a product may be rounded up
  };
  const Value width = whole(".width", limit), first = whole(".first", size - width), places = places_along(context, x, axis);
  const Value number = x.graph().constant(fill, {x.dtype(), Shape()});
  return where(greater_equal(places, first), where(greater(first + width, places), number, x), x);
}

std::vector<Value> build_spec_augment(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const Value x = inputs[0];
  require_steps(context, x);
  if (!context.training()) return {x};
  const Value mask = context.mask(x);
  const Type one{x.dtype(), Shape{1, 1, 1}};
  const Value rows = context.graph().constant(static_cast<double>(x.shape()[1]), one);
  const Value steps =
      mask ? reshape(reduce_sum(mask, {1}), Shape{x.shape()[0], 1, 1}) : context.graph().constant(static_cast<double>(x.shape()[2]), one);
  const double fill = options.number("fill");
  Value y = x;
  for (int64_t band = 0; band < options.integer("row_masks"); ++band)
    y = without_band(context, y, 1, "rows" + std::to_string(band), rows, options.number("rows"), fill);
  for (int64_t band = 0; band < options.integer("step_masks"); ++band)
    y = without_band(context, y, 2, "steps" + std::to_string(band), steps, options.number("steps"), fill);
  return {mask ? where(greater(mask_over(mask, y), full_like(mask_over(mask, y), .5)), y, x) : y};
}

}  // namespace

extern const LayerDef layer_spec_augment;
const LayerDef layer_spec_augment{.name = "spec_augment",
                                  .doc = "Hides bands of rows and of steps at random in training (SpecAugment).",
                                  .example = R"({"type": "spec_augment", "rows": 2, "steps": 3, "fill": 0.5})",
                                  .example_input = "[5, 9]",
                                  .schema = layer_schema(kSpecAugmentLayerOptions, kSpecAugmentLayerPositional),
                                  .build = build_spec_augment};

}  // namespace perigee
