#include "src/nn/layers/common.h"

#include <algorithm>

#include "src/graph/op.h"

namespace perigee {
namespace {

constexpr int64_t kMaxWindow = 1 << 20;  // keeps products of sizes far from overflow

}  // namespace

Pair read_pair(const LayerContext& context, const char* key, int dims, int64_t fallback, int64_t low) {
  const Config& options = context.options();
  if (fallback < low && !options.has(key)) options.fail(key, "is missing", "", dims == 1 ? "an integer" : "an integer or {height, width}");
  const std::vector<int64_t> values = options.integers(key, static_cast<size_t>(dims), fallback);
  for (const int64_t value : values)
    if (value < low || value > kMaxWindow)
      options.fail(key, "is out of range", std::to_string(value),
                   "an integer from " + std::to_string(low) + " to " + std::to_string(kMaxWindow));
  return dims == 1 ? Pair{low == 0 ? 0 : 1, values[0]} : Pair{values[0], values[1]};
}

Window read_window(const LayerContext& context, int dims, Pair image, int64_t fallback_kernel, int64_t fallback_stride, bool dilated) {
  Window w;
  w.input = image;
  w.kernel = read_pair(context, "kernel", dims, fallback_kernel);
  w.stride = context.options().has("stride") || fallback_stride > 0 ? read_pair(context, "stride", dims, fallback_stride) : w.kernel;
  if (dilated) w.dilation = read_pair(context, "dilation", dims, 1);
  const Json* padding = context.options().raw("padding");
  const std::string mode = padding != nullptr && padding->is_string() ? padding->as_string() : "";
  if (!mode.empty() && mode != "same" && !(mode == "causal" && dims == 1))
    context.options().fail("padding", "has an unknown value", "'" + mode + "'",
                           dims == 1 ? "an integer, 'same' or 'causal'" : "an integer, {height, width} or 'same'",
                           nearest_hint(mode, {"same", "causal"}));
  const Pair fixed = mode.empty() && padding != nullptr && !padding->is_null() ? read_pair(context, "padding", dims, 0, 0) : Pair{0, 0};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
    int64_t before = fixed[i], after = fixed[i];
    if (mode == "same") {
      const int64_t wanted = (image[i] + w.stride[i] - 1) / w.stride[i];
      const int64_t total = std::max<int64_t>(0, (wanted - 1) * w.stride[i] + reach - image[i]);
      before = total / 2;
      after = total - before;
    } else if (mode == "causal") {
      before = reach - 1;
      after = 0;
    }
    if (image[i] + before + after < reach) {
      const std::string padded = before + after > 0 ? " (" + std::to_string(before + after) + " of padding included)" : "";
      const Pair total{image[0] + (i == 0 ? before + after : 2 * fixed[0]), image[1] + (i == 1 ? before + after : 2 * fixed[1])};
      context.fail("kernel " + size_text({(w.kernel[0] - 1) * w.dilation[0] + 1, (w.kernel[1] - 1) * w.dilation[1] + 1}, dims) +
                       " is larger than its input " + size_text(padded.empty() ? image : total, dims) + padded,
                   "", "", "pad it or drop a pooling layer");
    }
    w.padding[2 * i] = before;
    w.padding[2 * i + 1] = after;
    w.output[i] = (image[i] + before + after - reach) / w.stride[i] + 1;
  }
  return w;
}

void require_image(const LayerContext& context, Value x, int dims) {
  if (x.rank() == dims + 2) return;
  std::string hint;
  if (dims == 2 && x.rank() == 3) hint = "a reshape layer in front can add the channel: reshape {1, height, width}";
  else if (x.rank() == 2)
    hint = dims == 2 ? "after a dense layer, put reshape {channels, height, width} in front" : "put reshape {channels, length} in front";
  else if (dims == 1 && x.rank() == 4) hint = "for images there is a layer without '1d' in its name, or with '2d'";
  context.fail("needs " + std::string(dims == 2 ? "an image (channels x height x width)" : "a sequence (channels x length)"),
               example_text(x), "", hint);
}

Pair image_size(Value x, int dims) { return dims == 2 ? Pair{x.shape()[2], x.shape()[3]} : Pair{1, x.shape()[2]}; }

Value to_image(Value x, int dims) { return dims == 2 ? x : reshape(x, Shape{x.shape()[0], x.shape()[1], 1, x.shape()[2]}); }
Value from_image(Value y, int dims) { return dims == 2 ? y : reshape(y, Shape{y.shape()[0], y.shape()[1], y.shape()[3]}); }

Value flatten(Value x) { return x.rank() == 2 ? x : reshape(x, Shape{x.shape()[0], product(x.shape(), 1)}); }

Value per_channel(Value vector, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims[1] = vector.shape()[0];
  return reshape(vector, Shape(dims));
}

Value add_bias(Value x, Value bias) { return x + per_channel(bias, x.rank()); }

Value finish(LayerContext& context, Value y) {
  const Json* activation = context.options().raw("activation");
  return activation == nullptr || activation->is_null() ? y : context.activation(*activation, y);
}

std::string size_text(Pair size, int dims) {
  return dims == 1 ? std::to_string(size[1]) : std::to_string(size[0]) + "x" + std::to_string(size[1]);
}

std::string example_text(Value x) {
  std::vector<int64_t> dims = x.shape().vector();
  if (!dims.empty()) dims.erase(dims.begin());
  return Shape(dims).text();
}

int64_t product(const Shape& shape, int from) {
  int64_t n = 1;
  for (int i = from; i < shape.rank(); ++i) n *= shape[i];
  return n;
}

Json window_attrs(const Window& window) {
  Json attrs = Json::object();
  attrs.set("stride", ints_json(window.stride));
  attrs.set("padding", ints_json(window.padding));
  attrs.set("dilation", ints_json(window.dilation));
  return attrs;
}

}  // namespace perigee
