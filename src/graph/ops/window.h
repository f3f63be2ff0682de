// Shared by convolution and pooling: windows that slide over images, read from attributes and checked against shapes.
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

inline constexpr OptionRange kSizes = {.low = 1, .high = 1 << 20}, kBorders = {.low = 0, .high = 1 << 20};
inline constexpr Option kStride = {"stride", "list of integers", "[1, 1]", "from window to window, {vertical, horizontal}", kSizes};
inline constexpr Option kPadding = {"padding", "list of integers", "[0, 0, 0, 0]", "{top, bottom, left, right}", kBorders};
inline constexpr Option kDilation = {"dilation", "list of integers", "[1, 1]", "from element to element of a window", kSizes};
inline constexpr Option kInputSize = {"input_size", "list of integers", nullptr, "{height, width} of the operand of the forward op",
                                      kSizes};

// An attribute of `n` integers.
inline void read_sizes(const Json& attrs, const Option& option, int64_t* out, size_t n) {
  const std::vector<int64_t> values = attr_ints(attrs, option);
  if (values.size() != n)
    throw Error(ErrorKind::model, {.what = "attribute '" + std::string(option.name) + "' has the wrong length",
                                   .got = std::to_string(values.size()),
                                   .expected = std::to_string(n)});
  std::copy(values.begin(), values.end(), out);
}

inline WindowAttrs window_attrs(const Json& attrs) {
  WindowAttrs window;
  read_sizes(attrs, kStride, window.stride, 2);
  read_sizes(attrs, kPadding, window.padding, 4);
  read_sizes(attrs, kDilation, window.dilation, 2);
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
