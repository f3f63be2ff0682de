// What convolution and pooling share: windows that slide over images, read from attributes and checked against shapes.
#pragma once

#include <algorithm>
#include <limits>
#include <string>

#include "src/core/error.h"
#include "src/graph/op.h"

namespace perigee {

struct WindowAttrs {
  int64_t stride[2] = {1, 1};
  int64_t padding[4] = {0, 0, 0, 0};  // top, bottom, left, right
  int64_t dilation[2] = {1, 1};
};

// An attribute of `n` integers in [lowest, 2^20]; `fallback` for all of them when absent.
inline void read_sizes(const Json& attrs, const char* key, int64_t lowest, int64_t fallback, int64_t* out, size_t n) {
  const std::vector<int64_t> values = attr_ints(attrs, key);
  if (!values.empty() && values.size() != n)
    throw Error(ErrorKind::model, {.what = "attribute '" + std::string(key) + "' has the wrong length",
                                   .got = std::to_string(values.size()),
                                   .expected = std::to_string(n)});
  for (size_t i = 0; i < n; ++i) {
    out[i] = values.empty() ? fallback : values[i];
    if (out[i] < lowest || out[i] > (int64_t{1} << 20))
      throw Error(ErrorKind::model, {.what = "attribute '" + std::string(key) + "' is out of range",
                                     .got = std::to_string(out[i]),
                                     .expected = std::to_string(lowest) + " to 1048576"});
  }
}

inline WindowAttrs window_attrs(const Json& attrs) {
  WindowAttrs window;
  read_sizes(attrs, "stride", 1, 1, window.stride, 2);
  read_sizes(attrs, "padding", 0, 0, window.padding, 4);
  read_sizes(attrs, "dilation", 1, 1, window.dilation, 2);
  return window;
}

// How many windows of `kernel` elements fit along axis 0 (rows) or 1 (columns) of an image. Error when none does.
inline int64_t window_count(const WindowAttrs& window, int axis, int64_t size, int64_t kernel, const char* what) {
  const int64_t span = window.dilation[axis] * (kernel - 1) + 1;
  const int64_t padded = size + window.padding[2 * axis] + window.padding[2 * axis + 1];
  if (kernel < 1 || padded < span)
    throw Error(ErrorKind::model, {.what = std::string(what) + (axis == 0 ? " is higher" : " is wider") + " than its (padded) input",
                                   .got = std::to_string(span),
                                   .expected = "at most " + std::to_string(padded),
                                   .hint = "pad it, make it smaller, or drop a pooling layer"});
  return (padded - span) / window.stride[axis] + 1;
}

inline void expect_rank(const Type& type, int rank, const char* operand, const char* dims) {
  if (type.shape.rank() != rank)
    throw Error(ErrorKind::model,
                {.what = std::string(operand) + " has the wrong number of dimensions", .got = type.shape.text(), .expected = dims});
}

inline void expect_shape(const Type& type, const Shape& shape, const char* operand) {
  if (!(type.shape == shape))
    throw Error(ErrorKind::model,
                {.what = std::string(operand) + " has the wrong shape", .got = type.shape.text(), .expected = shape.text()});
}

inline void expect_dtype(const Type& type, Dtype dtype, const char* operand) {
  if (type.dtype != dtype)
    throw Error(
        ErrorKind::model,
        {.what = std::string(operand) + " has the wrong element type", .got = dtype_name(type.dtype), .expected = dtype_name(dtype)});
}

}  // namespace perigee
