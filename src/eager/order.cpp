#include "src/eager/order.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/core/error.h"

namespace perigee {
namespace {

int checked_axis(int axis, const Array& x) {
  if (axis < 0 || axis >= x.view.rank)
    throw Error(ErrorKind::model, {.what = "there is no dimension " + std::to_string(axis + 1), .got = x.text()});
  return axis;
}

// Lines of a dense array along an axis: `count` lines of `size` elements, `stride` apart.
struct Lines {
  int64_t outer = 1, size = 1, stride = 1;
  Lines(const View& x, int axis) : size(x.dims[axis]) {
    for (int d = 0; d < axis; ++d) outer *= x.dims[d];
    for (int d = axis + 1; d < x.rank; ++d) stride *= x.dims[d];
  }
  int64_t begin(int64_t o, int64_t i) const { return o * size * stride + i; }
};

template <class T>
void sort_lines(const View& x, const Lines& lines, const Lines& results, bool descending, int64_t* out) {
  std::vector<T> keys(static_cast<size_t>(lines.size));
  std::vector<int64_t> order(keys.size());
  const auto before = [&](int64_t a, int64_t b) {
    const T p = keys[static_cast<size_t>(a)], q = keys[static_cast<size_t>(b)];
    if (p == q || (p != p && q != q)) return a < b;  // of equal ones the first
    if (p != p || q != q) return q != q;
    return descending ? q < p : p < q;
  };
  for (int64_t o = 0; o < lines.outer; ++o)
    for (int64_t i = 0; i < lines.stride; ++i) {
      for (int64_t k = 0; k < lines.size; ++k) keys[static_cast<size_t>(k)] = x.as<T>()[lines.begin(o, i) + k * lines.stride];
      std::iota(order.begin(), order.end(), int64_t{0});
      std::partial_sort(order.begin(), order.begin() + results.size, order.end(), before);
      for (int64_t k = 0; k < results.size; ++k) out[results.begin(o, i) + k * results.stride] = order[static_cast<size_t>(k)] + 1;
    }
}

template <class T>
void sort_all(const View& x, const Lines& lines, bool descending, int64_t* out) {
  std::vector<int64_t> order(static_cast<size_t>(lines.size));
  const auto before = [&](int64_t a, int64_t b) {
    const T p = x.as<T>()[a], q = x.as<T>()[b];
    if (p == q || (p != p && q != q)) return a < b;
    if (p != p || q != q) return q != q;
    return descending ? q < p : p < q;
  };
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), before);
  for (int64_t k = 0; k < lines.size; ++k) out[k] = order[static_cast<size_t>(k)] + 1;
}

template <class T>
void sort_typed(const View& x, const Lines& lines, const Lines& results, bool descending, int64_t* out) {
  if (lines.outer == 1 && lines.stride == 1 && results.size == lines.size) return sort_all<T>(x, lines, descending, out);
  sort_lines<T>(x, lines, results, descending, out);
}

}  // namespace

Array argsort(const Array& x, int axis, bool descending, int64_t count) {
  checked_axis(axis, x);
  const bool real = x.view.dtype == Dtype::f32 || x.view.dtype == Dtype::f64 || x.view.dtype == Dtype::f16 || x.view.dtype == Dtype::bf16;
  const Array keys = contiguous(cast(x, real ? Dtype::f64 : Dtype::i64));
  View shape = keys.view;
  shape.dtype = Dtype::i64;
  if (count > shape.dims[axis])
    throw Error(ErrorKind::model, {.what = "there are not so many elements along dimension " + std::to_string(axis + 1),
                                   .got = x.text(),
                                   .expected = "at least " + std::to_string(count)});
  if (count >= 0) shape.dims[axis] = count;
  Array result = new_array(shape);
  const Lines lines(keys.view, axis), results(result.view, axis);
  if (result.view.elements() == 0) return result;
  if (real) sort_typed<double>(keys.view, lines, results, descending, result.view.as<int64_t>());
  else sort_typed<int64_t>(keys.view, lines, results, descending, result.view.as<int64_t>());
  return result;
}

Array take_along(const Array& x, int axis, const Array& places) {
  checked_axis(axis, x);
  const Array from = contiguous(x), at = contiguous(cast(places, Dtype::i64));
  View shape = at.view;
  shape.dtype = x.view.dtype;
  View expected = x.view;
  if (at.view.rank == x.view.rank) expected.dims[axis] = at.view.dims[axis];
  if (!same_shape(expected, at.view))
    throw Error(ErrorKind::model,
                {.what = "places have the shape of the tensor but along the dimension", .got = at.text() + " for " + x.text()});
  Array result = new_array(shape);
  const Lines lines(from.view, axis), results(result.view, axis);
  const size_t size = dtype_bytes(shape.dtype);
  for (int64_t o = 0; o < results.outer; ++o)
    for (int64_t k = 0; k < results.size; ++k)
      for (int64_t i = 0; i < results.stride; ++i) {
        const int64_t to = results.begin(o, i) + k * results.stride, place = at.view.as<int64_t>()[to];
        if (place < 1 || place > lines.size)
          throw Error(ErrorKind::model,
                      {.what = "place " + std::to_string(place) + " lies outside dimension " + std::to_string(axis + 1), .got = x.text()});
        std::memcpy(result.view.as<std::byte>() + static_cast<size_t>(to) * size,
                    from.view.as<std::byte>() + static_cast<size_t>(lines.begin(o, i) + (place - 1) * lines.stride) * size, size);
      }
  return result;
}

}  // namespace perigee
