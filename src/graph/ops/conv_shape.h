// Shapes and attributes of the convolution family, shared by its ops.
#pragma once

#include <cstring>

#include "kernels/ops/conv.h"
#include "src/graph/ops/window.h"

namespace perigee {

struct ConvShape {
  int64_t out, out_h, out_w;
};

inline constexpr Option kGroups = {"groups", "integer", "1", "of channels, each with weights of its own", kSizes};
inline constexpr Option kConvActivation = {"activation", "name", "none", "computed with the result", {}, {"none", "relu"}};
inline constexpr Option kKernelSize = {"kernel_size", "list of integers", nullptr, "{height, width} of the weight", kSizes};
inline constexpr Option kPool = {"pool", "list of integers", "[1, 1]", "the pooling window, {height, width}", kSizes};

inline int64_t conv_groups(const Json& attrs) { return attr_int(attrs, kGroups); }

// Checks x[N,C,H,W] against w[O,C/groups,kh,kw] and gives the size of the convolution's output.
inline ConvShape conv_shape(const Type& x, const Type& w, const Json& attrs) {
  expect_rank(x, 4, "the input", "N,C,H,W");
  expect_rank(w, 4, "the weight", "O,C/groups,kernel height,kernel width");
  expect_dtype(w, x.dtype, "the weight");
  const int64_t groups = conv_groups(attrs);
  if (w.shape[1] * groups != x.shape[1])
    throw Error(ErrorKind::model, {.what = "the weight does not fit the input's channels",
                                   .got = w.shape.text() + " for " + x.shape.text(),
                                   .expected = "dimension 1 = " + std::to_string(x.shape[1]) + " / " + std::to_string(groups) + " groups"});
  if (w.shape[0] % groups != 0)
    throw Error(ErrorKind::model, {.what = "the output channels do not divide into the groups",
                                   .got = std::to_string(w.shape[0]),
                                   .expected = "a multiple of " + std::to_string(groups)});
  const WindowAttrs window = window_attrs(attrs);
  return {w.shape[0], window_count(window, 0, x.shape[2], w.shape[2], "the kernel"),
          window_count(window, 1, x.shape[3], w.shape[3], "the kernel")};
}

inline size_t write_conv_params(const Json& attrs, void* out) {
  ConvParams p;
  const WindowAttrs window = window_attrs(attrs);
  int64_t pool[2];
  read_sizes(attrs, kPool, pool, 2);
  for (int i = 0; i < 2; ++i) {
    p.stride[i] = static_cast<int32_t>(window.stride[i]);
    p.dilation[i] = static_cast<int32_t>(window.dilation[i]);
    p.pool[i] = static_cast<int32_t>(pool[i]);
  }
  for (int i = 0; i < 4; ++i) p.padding[i] = static_cast<int32_t>(window.padding[i]);
  p.groups = static_cast<int32_t>(conv_groups(attrs));
  p.relu = attr_string(attrs, kConvActivation) == "relu";
  std::memcpy(out, &p, sizeof p);
  return sizeof p;
}

// The window geometry alone, without activation and sizes: the attributes of a plain conv2d.
inline Json geometry_attrs(const Json& attrs) {
  Json result = Json::object();
  for (const char* key : {"stride", "padding", "dilation", "groups"})
    if (const Json* value = attrs.find(key)) result.set(key, *value);
  return result;
}

inline Json with_size(Json attrs, const char* key, int64_t height, int64_t width) {
  const int64_t size[2] = {height, width};
  attrs.set(key, ints_json(size));
  return attrs;
}
inline Json with_input_size(const Json& attrs, const Shape& x) { return with_size(geometry_attrs(attrs), "input_size", x[2], x[3]); }
inline Json with_kernel_size(const Json& attrs, const Shape& w) { return with_size(geometry_attrs(attrs), "kernel_size", w[2], w[3]); }

// All operands count the batch in dimension 0; the result is a sum over it.
inline Sliced sliced_batch_sum(const OpCall& call, std::span<const Sliced> inputs) {
  bool whole = true, batch = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!call.present[i]) continue;
    whole = whole && inputs[i] == Sliced::whole;
    batch = batch && inputs[i] == Sliced::batch;
  }
  return whole ? Sliced::whole : batch ? Sliced::partial : Sliced::mixed;
}

}  // namespace perigee
