// Choosing elements by places and masks: copies.
#include <algorithm>
#include <cstring>

#include "src/core/error.h"
#include "src/eager/eager.h"
#include "src/eager/window.h"

namespace perigee {
namespace {

[[noreturn]] void refuse_choose(std::string what, std::string got, std::string expected) {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
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
    refuse_choose("a mask has the shape of the tensor, or of its first dimensions", mask.text() + " for " + x.text(), "the same sizes");
  if (mask.view.rank == 0 && x.view.rank == kMaxRank)
    refuse_choose("a mask of one element cannot add a dimension here", x.text(), "at most 7 dimensions");
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
  else move_elements(from, to);
}

// `op` on x and the places, none of them below 0.
Array by_places(const char* op, const Array& x, int axis, const Array& indices) {
  if (axis < 0 || axis >= x.view.rank) refuse_choose("there is no dimension " + std::to_string(axis), x.text(), "one below its rank");
  if (indices.view.dtype != Dtype::i64 && indices.view.dtype != Dtype::i32 && indices.view.dtype != Dtype::u8)
    refuse_choose("places are whole numbers", indices.text(), "i64");
  const Array places = contiguous(cast(indices, Dtype::i64)), from_start = new_array(places.view);
  const int64_t size = x.view.dims[axis];
  for (int64_t i = 0; i < places.view.elements(); ++i) {
    const int64_t place = places.view.as<int64_t>()[i], up = place < 0 ? place + size : place;
    if (up < 0 || up >= size)
      refuse_choose(
          "place " + std::to_string(place) + " lies outside dimension " + std::to_string(axis), x.text(),
          size == 0 ? "none: the dimension is empty" : "0 to " + std::to_string(size - 1) + ", or -1 to -" + std::to_string(size));
    from_start.view.as<int64_t>()[i] = up;
  }
  Json attrs = Json::object();
  attrs.set("axis", axis);
  const Array* operands[] = {&x, &from_start};
  return eager_apply(op_named(op), operands, attrs)[0];
}

}  // namespace

Array take(const Array& x, int axis, const Array& indices) { return by_places("gather", x, axis, indices); }

Array take_along(const Array& x, int axis, const Array& places) { return by_places("take_along", x, axis, places); }

Array nonzero(const Array& mask) {
  const Array chosen = cast(mask, Dtype::boolean);
  const int rank = chosen.view.rank;
  Array places = new_array(Type{Dtype::i64, Shape{count_true(chosen), rank}});
  auto* out = places.view.as<int64_t>();
  each_offset(chosen.view, rank, [&](int64_t offset, const int64_t* index) {
    if (chosen.view.as<uint8_t>()[offset] == 0) return;
    for (int d = 0; d < rank; ++d) *out++ = index[d];
  });
  return places;
}

Array masked_select(const Array& x, const Array& mask) {
  const Array chosen = truth(mask, x);
  View shape = row_of(x, chosen.view.rank);
  std::copy_backward(shape.dims, shape.dims + shape.rank, shape.dims + shape.rank + 1);
  shape.dims[0] = count_true(chosen);
  ++shape.rank;
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
