#include "src/eager/window.h"

#include "src/core/error.h"

namespace perigee {
namespace {

[[noreturn]] void refuse(std::string what, std::string got, std::string expected) {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

struct Span {
  int64_t first, count, step;
};

Span span_of(const WindowIndex& index, int64_t size, int dim, const Array& x) {
  if (index.step == 0 || index.step == INT64_MIN) refuse("a range's step cannot be 0", x.text(), "a positive or negative step");
  const int64_t first = place_from_zero(index.start, size, 1, dim, x), last = place_from_zero(index.stop, size, 1, dim, x);
  const int64_t distance = index.step > 0 ? last - first : first - last, stride = index.step > 0 ? index.step : -index.step;
  if (distance < 0) return {0, 0, 1};
  // What it holds must be there: {1, 4} of three elements is a mistake, {1, 0} is empty.
  if (first < 0 || first >= size || last < 0 || last >= size)
    refuse(
        "the range " + std::to_string(index.start) + " to " + std::to_string(index.stop) + " leaves dimension " + std::to_string(dim + 1),
        x.text(), "places 1 to " + std::to_string(size));
  const int64_t count = distance / stride + 1;
  return {first, count, count > 1 ? index.step : 1};
}

}  // namespace

int64_t place_from_zero(int64_t place, int64_t size, int64_t slack, int dim, const Array& x) {
  const int64_t from_zero = place > 0 ? place - 1 : place < 0 ? place + size : -1;
  if ((place == 0 && slack == 0) || from_zero < -slack || from_zero >= size + slack)
    refuse("index " + std::to_string(place) + " lies outside dimension " + std::to_string(dim + 1), x.text(),
           size == 0 ? "none: the dimension is empty" : "1 to " + std::to_string(size) + ", or -1 to -" + std::to_string(size));
  return from_zero;
}

Array window(const Array& x, std::span<const WindowIndex> indices) {
  Array result(x.storage, x.view);
  View& view = result.view;
  view.rank = 0;
  int dim = 0;
  int64_t offset = 0;
  const auto keep = [&](int64_t size, int64_t stride) {
    if (view.rank == kMaxRank) refuse("an index gives too many dimensions", x.text(), "at most " + std::to_string(kMaxRank));
    view.dims[view.rank] = size;
    view.strides[view.rank++] = stride;
  };
  for (const WindowIndex& index : indices) {
    if (index.kind == WindowIndex::new_axis) {
      keep(1, 1);
      continue;
    }
    if (dim == x.view.rank)
      refuse("an index has more entries than the tensor has dimensions", x.text(), "at most " + std::to_string(x.view.rank));
    const int64_t size = x.view.dims[dim], stride = x.view.strides[dim];
    if (index.kind == WindowIndex::at) {
      offset += place_from_zero(index.start, size, 0, dim, x) * stride;
    } else if (index.kind == WindowIndex::range) {
      const Span span = span_of(index, size, dim, x);
      if (span.count > 0) offset += span.first * stride;
      keep(span.count, stride * span.step);
    } else {
      keep(size, stride);
    }
    ++dim;
  }
  for (; dim < x.view.rank; ++dim) keep(x.view.dims[dim], x.view.strides[dim]);
  if (view.elements() > 0) view.data = x.view.as<std::byte>() + offset * static_cast<int64_t>(dtype_bytes(view.dtype));
  return result;
}

}  // namespace perigee
