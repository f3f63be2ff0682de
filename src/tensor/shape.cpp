#include "src/tensor/shape.h"

#include <algorithm>
#include <cassert>

#include "src/core/error.h"

namespace perigee {
namespace {

struct DtypeName {
  Dtype dtype;
  const char* name;
};

constexpr DtypeName kDtypeNames[] = {{Dtype::f32, "f32"}, {Dtype::f64, "f64"}, {Dtype::f16, "f16"}, {Dtype::bf16, "bf16"},
                                     {Dtype::i32, "i32"}, {Dtype::i64, "i64"}, {Dtype::u8, "u8"},   {Dtype::boolean, "bool"}};

}  // namespace

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::vector<int64_t>(dims)) {}

std::optional<int64_t> count_elements(std::span<const int64_t> dims) {
  int64_t product = 1;  // of those that are not 0
  bool empty = false;
  for (int64_t dim : dims) {
    empty |= dim == 0;
    if (__builtin_mul_overflow(product, std::max<int64_t>(dim, 1), &product) || product > kMaxElements) return std::nullopt;
  }
  return empty ? 0 : product;
}

Shape::Shape(const std::vector<int64_t>& dims) {
  if (dims.size() > static_cast<size_t>(kMaxRank))
    throw Error(ErrorKind::model,
                {.what = "too many dimensions", .got = std::to_string(dims.size()), .expected = "at most " + std::to_string(kMaxRank)});
  for (int64_t dim : dims) {
    if (dim < 0) throw Error(ErrorKind::model, {.what = "a dimension is negative", .got = std::to_string(dim), .expected = "0 or more"});
    dims_[rank_++] = dim;
  }
  if (!count_elements(dims)) throw Error(ErrorKind::resources, {.what = "a tensor of " + text() + " is too large for any memory"});
}

int64_t Shape::at(int i) const {
  if (i < 0) i += rank_;
  assert(i >= 0 && i < rank_);
  return dims_[i];
}

int64_t Shape::elements() const {
  int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= dims_[i];
  return n;
}

Shape Shape::with(int i, int64_t size) const {
  if (i < 0) i += rank_;
  assert(i >= 0 && i < rank_ && size >= 0);
  std::vector<int64_t> dims = vector();
  dims[static_cast<size_t>(i)] = size;
  return Shape(dims);
}

bool Shape::operator==(const Shape& other) const { return rank_ == other.rank_ && std::equal(dims_, dims_ + rank_, other.dims_); }

std::string Shape::text() const {
  if (rank_ == 0) return "scalar";
  std::string out;
  for (int i = 0; i < rank_; ++i) out += (i ? "x" : "") + std::to_string(dims_[i]);
  return out;
}

const char* dtype_name(Dtype dtype) {
  for (const auto& known : kDtypeNames)
    if (known.dtype == dtype) return known.name;
  return "?";
}

Dtype dtype_from_name(std::string_view name) {
  std::vector<std::string> names;
  std::string listed;
  for (const auto& known : kDtypeNames) {
    if (name == known.name) return known.dtype;
    names.push_back(known.name);
    listed += (listed.empty() ? "" : ", ") + names.back();
  }
  throw Error(ErrorKind::model, {.what = "unknown element type",
                                 .got = "'" + std::string(name) + "'",
                                 .expected = "one of " + listed,
                                 .hint = nearest_hint(name, names)});
}

std::string Type::text() const { return std::string(dtype_name(dtype)) + "[" + (shape.rank() == 0 ? "" : shape.text()) + "]"; }

View contiguous_view(void* data, Dtype dtype, const Shape& shape) {
  View view;
  view.data = data;
  view.dtype = dtype;
  view.rank = shape.rank();
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    view.dims[i] = shape[i];
    view.strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return view;
}

Shape broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(rank);
  for (int i = 1; i <= rank; ++i) {  // counted from the innermost
    const int64_t m = i <= a.rank() ? a[a.rank() - i] : 1;
    const int64_t n = i <= b.rank() ? b[b.rank() - i] : 1;
    if (m != n && m != 1 && n != 1)
      throw Error(ErrorKind::model, {.what = "shapes do not fit together",
                                     .got = a.text() + " and " + b.text(),
                                     .expected = "each dimension, from the last, equal or 1"});
    dims[rank - i] = m == 1 ? n : m;
  }
  return Shape(dims);
}

}  // namespace perigee
