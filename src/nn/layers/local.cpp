#include "src/nn/layers/local.h"
#include "src/nn/layers/steps.h"

#include "src/graph/op.h"

namespace perigee {
namespace {

// The elements under the window at each place: [N, C, H, W] -> [N, C * kh * kw, places]. One strided slice for each element of the window.
Value window_patches(Value x, const Window& w) {
  Graph& graph = x.graph();
  Json around = Json::object();
  around.set("before", Json(Json::Array{0, 0, w.padding[0], w.padding[2]}));
  around.set("after", Json(Json::Array{0, 0, w.padding[1], w.padding[3]}));
  const Value padded = w.padding == std::array<int64_t, 4>{} ? x : graph.apply("pad", {x}, std::move(around));
  const int64_t n = x.shape()[0], c = x.shape()[1];
  std::vector<Value> parts;
  for (int64_t p = 0; p < w.kernel[0]; ++p)
    for (int64_t q = 0; q < w.kernel[1]; ++q) {
      const int64_t top = p * w.dilation[0], left = q * w.dilation[1];
      const int64_t start[] = {0, 0, top, left}, step[] = {1, 1, w.stride[0], w.stride[1]};
      const int64_t stop[] = {n, c, top + (w.output[0] - 1) * w.stride[0] + 1, left + (w.output[1] - 1) * w.stride[1] + 1};
      parts.push_back(reshape(slice(padded, start, stop, step), Shape{n, c, 1, w.output[0] * w.output[1]}));
    }
  const Value all = parts.size() == 1 ? parts[0] : concatenate(parts, 2);
  return reshape(all, Shape{n, c * w.kernel[0] * w.kernel[1], w.output[0] * w.output[1]});
}

}  // namespace

// A convolution whose weights differ from place to place: [positions, in * window, out] and [positions, out].
std::vector<Value> build_local(LayerContext& context, Value input, int dims) {
  refuse_mask(context, context.mask(input), "take conv1d");
  require_image(context, input, dims);
  const int64_t in = input.shape()[1], out = context.options().integer_in("out", 1, 1 << 20);
  const Window window = read_window(context, dims, image_size(input, dims), 0, 1, true);
  const int64_t places = window.output[0] * window.output[1], features = in * window.kernel[0] * window.kernel[1], n = input.shape()[0];
  const Value patches = transpose(window_patches(to_image(input, dims), window), {2, 0, 1});  // [places, N, features]
  const Value weight = context.parameter("weight", Shape{places, features, out}, ParameterRole::weight, features,
                                         out * window.kernel[0] * window.kernel[1], "xavier");
  Value y = transpose(matmul(patches, weight), {1, 2, 0});  // [N, out, places]
  if (context.options().boolean("bias", true))
    y = y + context.parameter("bias", Shape{out, places}, ParameterRole::bias, features, out, 0.0);
  y = dims == 1 ? y : reshape(y, Shape{n, out, window.output[0], window.output[1]});
  return {finish(context, y)};
}

}  // namespace perigee
