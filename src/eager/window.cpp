#include "src/eager/window.h"

#include <algorithm>
#include <cstring>

#include "src/core/error.h"
#include "src/eager/eager.h"

namespace perigee {
namespace {

[[noreturn]] void refuse(std::string what, std::string got, std::string expected) {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

// From 1, or from the end with -1, to 0-based. `slack`: how far beyond either end it may lie.
int64_t place_of(int64_t place, int64_t size, int64_t slack, int dim, const Array& x) {
  const int64_t from_zero = place > 0 ? place - 1 : place < 0 ? place + size : -1;
  if ((place == 0 && slack == 0) || from_zero < -slack || from_zero >= size + slack)
    refuse("index " + std::to_string(place) + " lies outside dimension " + std::to_string(dim + 1), x.text(),
           size == 0 ? "none: the dimension is empty" : "1 to " + std::to_string(size) + ", or -1 to -" + std::to_string(size));
  return from_zero;
}

struct Span {
  int64_t first, count, step;
};

Span span_of(const WindowIndex& index, int64_t size, int dim, const Array& x) {
  if (index.step == 0 || index.step == INT64_MIN) refuse("a range's step cannot be 0", x.text(), "a positive or negative step");
  const int64_t first = place_of(index.start, size, 1, dim, x), last = place_of(index.stop, size, 1, dim, x);
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

// f(offset in bytes) for each index of the view's dims [0, rank), row-major.
template <class F>
void each_offset(const View& view, int rank, F f) {
  const auto size = static_cast<int64_t>(dtype_bytes(view.dtype));
  int64_t index[kMaxRank] = {}, offset = 0;
  for (int d = 0; d < rank; ++d)
    if (view.dims[d] == 0) return;
  while (true) {
    f(offset * size, static_cast<const int64_t*>(index));
    int d = rank - 1;
    for (; d >= 0; --d) {
      offset += view.strides[d];
      if (++index[d] < view.dims[d]) break;
      offset -= view.dims[d] * view.strides[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

Array truth(const Array& mask, const Array& x) {
  if (mask.view.rank > x.view.rank || !std::equal(mask.view.dims, mask.view.dims + mask.view.rank, x.view.dims))
    refuse("a mask has the shape of the tensor, or of its first dimensions", mask.text() + " for " + x.text(), "the same sizes");
  return cast(mask, Dtype::boolean);
}

// x with its first `rank` dimensions removed: a row that starts where x does.
View row_of(const Array& x, int rank) {
  View row = x.view;
  row.rank -= rank;
  std::copy(x.view.dims + rank, x.view.dims + x.view.rank, row.dims);
  std::copy(x.view.strides + rank, x.view.strides + x.view.rank, row.strides);
  return row;
}

int64_t count_true(const Array& mask) {
  int64_t count = 0;
  each_offset(mask.view, mask.view.rank, [&](int64_t offset, const int64_t*) { count += mask.view.as<uint8_t>()[offset] != 0; });
  return count;
}

// f(row of x, number of the row among those chosen)
template <class F>
void each_chosen(const Array& x, const Array& mask, F f) {
  View lead = x.view;
  lead.rank = mask.view.rank;
  View row = row_of(x, mask.view.rank);
  const Array dense = contiguous(mask);
  const auto* chosen = dense.view.as<uint8_t>();
  int64_t count = 0;
  each_offset(lead, lead.rank, [&](int64_t offset, const int64_t*) {
    if (*chosen++ == 0) return;
    row.data = x.view.as<std::byte>() + offset;
    f(row, count++);
  });
}

void copy_row(const View& from, const View& to) {
  if (from.rank == 0) std::memcpy(to.data, from.data, dtype_bytes(from.dtype));
  else run_elementwise_kernel("copy", std::span(&from, 1), to);
}

}  // namespace

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
      offset += place_of(index.start, size, 0, dim, x) * stride;
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

Array take(const Array& x, int axis, const Array& indices) {
  if (axis < 0 || axis >= x.view.rank) refuse("there is no dimension " + std::to_string(axis + 1), x.text(), "1 to its rank");
  if (indices.view.dtype != Dtype::i64 && indices.view.dtype != Dtype::i32 && indices.view.dtype != Dtype::u8)
    refuse("places are whole numbers", indices.text(), "i64");
  const Array places = contiguous(cast(indices, Dtype::i64));
  const int64_t n = places.view.elements(), size = x.view.dims[axis];
  Array from_zero = new_array(places.view);
  for (int64_t i = 0; i < n; ++i) from_zero.view.as<int64_t>()[i] = place_of(places.view.as<int64_t>()[i], size, 0, axis, x);
  Json attrs = Json::object();
  attrs.set("axis", axis);
  const Array* operands[] = {&x, &from_zero};
  return eager_apply(op_named("gather"), operands, attrs)[0];
}

Array nonzero(const Array& mask) {
  const Array chosen = cast(mask, Dtype::boolean);
  const int rank = chosen.view.rank;
  Array places = new_array(Type{Dtype::i64, Shape{count_true(chosen), rank}});
  auto* out = places.view.as<int64_t>();
  each_offset(chosen.view, rank, [&](int64_t offset, const int64_t* index) {
    if (chosen.view.as<uint8_t>()[offset] == 0) return;
    for (int d = 0; d < rank; ++d) *out++ = index[d] + 1;
  });
  return places;
}

Array masked_select(const Array& x, const Array& mask) {
  const Array chosen = truth(mask, x);
  View shape = row_of(x, chosen.view.rank);
  std::copy_backward(shape.dims, shape.dims + shape.rank, shape.dims + shape.rank + 1);
  shape.dims[0] = count_true(chosen);
  ++shape.rank;
  if (shape.rank > kMaxRank) refuse("a mask of one element cannot add a dimension here", x.text(), "at most 7 dimensions");
  Array result = new_array(shape);
  View row = row_of(result, 1);
  each_chosen(x, chosen, [&](const View& from, int64_t count) {
    row.data = result.view.as<std::byte>() + count * result.view.strides[0] * static_cast<int64_t>(dtype_bytes(row.dtype));
    copy_row(from, row);
  });
  return result;
}

void masked_assign(const Array& x, const Array& mask, const Array& value) {
  const Array chosen = truth(mask, x);
  View shape = row_of(x, chosen.view.rank);
  std::copy_backward(shape.dims, shape.dims + shape.rank, shape.dims + shape.rank + 1);
  shape.dims[0] = count_true(chosen);
  ++shape.rank;
  Array same = cast(value, x.view.dtype);
  if (same.storage == x.storage) {
    same = new_array(value.view);
    copy_into(value, same);
  }
  const View wide = broadcast_to_shape_of(same.view, shape);
  Array all(same.storage, wide);
  View row = row_of(all, 1);
  each_chosen(x, chosen, [&](const View& to, int64_t count) {
    row.data = wide.as<std::byte>() + count * wide.strides[0] * static_cast<int64_t>(dtype_bytes(row.dtype));
    copy_row(row, to);
  });
}

}  // namespace perigee
