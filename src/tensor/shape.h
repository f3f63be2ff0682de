// Dimensions of a tensor, outermost first. At most kMaxRank of them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/view.h"

namespace perigee {

// Product of the dimensions (each >= 0). Nothing when there could be no such array: when the product of those that are not 0
// exceeds kMaxElements, as NumPy has it, so that neither strides nor bytes of any shape leave int64. For sizes from outside.
constexpr int64_t kMaxElements = int64_t{1} << 59;
std::optional<int64_t> count_elements(std::span<const int64_t> dims);

// Every Shape is one that count_elements accepts.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(const std::vector<int64_t>& dims);  // Error when too many, negative or more than kMaxElements

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }  // i >= 0
  int64_t at(int i) const;                              // negative counts from the end; asserts the range
  int64_t elements() const;
  std::vector<int64_t> vector() const { return {dims_, dims_ + rank_}; }
  Shape with(int i, int64_t size) const;  // the same with one dimension changed; Error when that makes it too large
  bool operator==(const Shape& other) const;
  std::string text() const;  // "32x1x28x28"; a scalar is "scalar"

 private:
  int rank_ = 0;
  int64_t dims_[kMaxRank] = {};
};

const char* dtype_name(Dtype dtype);           // "f32"
Dtype dtype_from_name(std::string_view name);  // Error(model) with the known names

struct Type {
  Dtype dtype = Dtype::f32;
  Shape shape;
  bool operator==(const Type&) const = default;
  std::string text() const;  // "f32[32x10]"
};

View contiguous_view(void* data, Dtype dtype, const Shape& shape);
// NumPy broadcasting; Error(model) naming both shapes when they do not fit.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace perigee
