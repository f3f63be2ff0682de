#include "src/nn/layers/steps.h"

#include <algorithm>

#include "src/graph/op.h"

namespace perigee {

Value steps_first(Value x) { return transpose(x, {0, 2, 1}); }
Value features_first(Value y) { return transpose(y, {0, 2, 1}); }

Value part_of(Value x, int axis, int64_t first, int64_t end) {
  std::vector<int64_t> start(static_cast<size_t>(x.rank()), 0), stop = x.shape().vector();
  start[static_cast<size_t>(axis)] = first;
  stop[static_cast<size_t>(axis)] = end;
  return slice(x, start, stop);
}

Value step_of(Value x, int64_t t) { return reshape(part_of(x, 1, t, t + 1), Shape{x.shape()[0], x.shape()[2]}); }

void require_steps(const LayerContext& context, Value x, const std::string& hint) {
  if (x.rank() != 3) context.fail("needs a sequence (features x steps)", example_text(x), "", hint);
}

Value mask_over(Value mask, Value x) {
  std::vector<int64_t> dims(static_cast<size_t>(x.rank()), 1);
  dims.front() = mask.shape()[0], dims.back() = mask.shape()[1];
  return reshape(mask, Shape(dims));
}

Value masked(LayerContext& context, Value x) {
  const Value mask = context.mask(x);
  return mask ? x * mask_over(mask, x) : x;
}

Value masked_rows(Value y, Value mask) { return mask ? y * reshape(mask, Shape{mask.shape()[0], mask.shape()[1], 1}) : y; }

void set_window_mask(LayerContext& context, Value x, Value y, const Window& window) {
  const Value mask = context.mask(x);
  if (!mask) return;
  const int64_t reach = (window.kernel[1] - 1) * window.dilation[1] + 1, ends = window.padding[2] + window.padding[3];
  const int64_t stride = window.stride[1], steps = window.output[1];
  if (stride == 1 && ends == reach - 1) return context.set_mask(y, mask);
  const Json* padding = context.options().raw("padding");
  if (stride > 1 && padding != nullptr && padding->is_string() && padding->as_string() == "same")
    context.fail("padding \"same\" with a stride depends on the length of a sequence", "stride " + std::to_string(stride), "",
                 "give the padding as a number");
  // Step o of the output needs so many steps of the input.
  std::vector<double> needed(static_cast<size_t>(steps));
  for (int64_t o = 0; o < steps; ++o) needed[static_cast<size_t>(o)] = static_cast<double>(std::max<int64_t>(1, o * stride + reach - ends));
  Graph& graph = context.graph();
  const Value least = graph.constant(Tensor::from(Shape{1, steps}, needed).to(mask.dtype()));
  const Value zero = graph.constant(0, {mask.dtype(), Shape()}), one = graph.constant(1, {mask.dtype(), Shape()});
  context.set_mask(y, where(greater_equal(reduce_sum(mask, {1}, true), least), one, zero));
}

void refuse_mask(const LayerContext& context, Value mask, const std::string& hint) {
  if (mask) context.fail("mixes the steps of a sequence, of which some are padding", "an input with lengths or a mask", "", hint);
}

}  // namespace perigee
