#include "src/nn/layers/pool.h"

#include <algorithm>

#include "src/graph/op.h"
#include "src/nn/layers/steps.h"

namespace perigee {

std::vector<Value> build_pool(LayerContext& context, Value input, int dims, const char* kind) {
  require_image(context, input, dims);
  const std::string name = kind;
  const Window window = read_window(context, dims, image_size(input, dims), 0, 0, name == "max");
  for (size_t i = 0; i < 2; ++i)
    if (std::max(window.padding[2 * i], window.padding[2 * i + 1]) >= (window.kernel[i] - 1) * window.dilation[i] + 1)
      context.fail("some windows would lie in the padding alone", "padding " + std::to_string(window.padding[2 * i]),
                   "less than the kernel");
  Json attrs = window_attrs(window);
  attrs.set("kernel", ints_json(window.kernel));
  attrs.set("kind", kind);
  if (name == "average") attrs.set("count_include_pad", context.options().boolean("count_include_pad", false));
  if (name == "pnorm") attrs.set("p", context.options().number_in("p", 1, 100, 2));
  Value x = input;
  const Value mask = context.mask(input);
  if (mask && window.padding[3] > 0) {  // else no window that counts reaches into the padding
    if (name == "average") refuse_mask(context, mask, "leave out its own padding");
    const Value beyond = context.graph().constant(name == "max" ? kBelowAll : 0.0, {x.dtype(), Shape()});
    x = where(greater(mask_over(mask, x), context.graph().constant(0, {x.dtype(), Shape()})), x, beyond);
  }
  const Value y = from_image(input.graph().apply("pool2d", {to_image(x, dims)}, std::move(attrs)), dims);
  set_window_mask(context, input, y, window);
  return {y};
}

}  // namespace perigee
