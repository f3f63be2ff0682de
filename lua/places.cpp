#include "lua/places.h"

#include <string>

#include "src/core/error.h"

namespace perigee {
namespace {

[[noreturn]] void refuse(std::string what, std::string got, std::string expected, std::string hint = "") {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected), .hint = std::move(hint)});
}

// Batches of one example are indexed as if they were the example, and places as if they counted from 0.
std::string hint_of_place(int64_t place, int dim, const Array& x) {
  if (place == 0) return "places count from 1";
  if (dim != 0 || x.view.rank < 2 || x.view.dims[0] != 1 || place > x.view.dims[1] || place < -x.view.dims[1]) return "";
  return "the first dimension has one entry, and place " + std::to_string(place) + " of the second is x[{ 1, " + std::to_string(place) +
         " }]";
}

// The place from 0. Error when it lies more than `slack` beyond an end.
int64_t from_zero(int64_t place, int64_t size, int64_t slack, int dim, const Array& x) {
  const int64_t from_start = place > 0 ? place - 1 : place < 0 ? place + size : -1;
  if ((place == 0 && slack == 0) || from_start < -slack || from_start >= size + slack)
    refuse("index " + std::to_string(place) + " lies outside dimension " + std::to_string(dim + 1), x.text(),
           size == 0 ? "none: the dimension is empty" : "1 to " + std::to_string(size) + ", or -1 to -" + std::to_string(size),
           hint_of_place(place, dim, x));
  return from_start;
}

WindowIndex range_of(const LuaIndex& index, int64_t size, int dim, const Array& x) {
  if (index.step == 0 || index.step == INT64_MIN) refuse("a range's step cannot be 0", x.text(), "a positive or negative step");
  const int64_t first = from_zero(index.start, size, 1, dim, x), last = from_zero(index.stop, size, 1, dim, x);
  const int64_t distance = index.step > 0 ? last - first : first - last, stride = index.step > 0 ? index.step : -index.step;
  if (distance < 0) return {WindowIndex::range, 0, 0, 1};
  // All elements of the range must exist: {1, 4} of three elements is a mistake, {1, 0} is empty.
  if (first < 0 || first >= size || last < 0 || last >= size)
    refuse(
        "the range " + std::to_string(index.start) + " to " + std::to_string(index.stop) + " leaves dimension " + std::to_string(dim + 1),
        x.text(), "places 1 to " + std::to_string(size));
  return {WindowIndex::range, first, distance / stride + 1, index.step};
}

}  // namespace

std::span<const WindowIndex> from_lua(const Array& x, std::span<const LuaIndex> entries, std::span<WindowIndex> room) {
  if (entries.size() > room.size()) refuse("an index has too many entries", std::to_string(entries.size()), std::to_string(room.size()));
  int dim = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto kind = static_cast<WindowIndex::Kind>(entries[i].kind);
    room[i] = {kind};
    if (kind == WindowIndex::new_axis) continue;
    if (dim < x.view.rank && kind == WindowIndex::at) room[i].first = from_zero(entries[i].start, x.view.dims[dim], 0, dim, x);
    if (dim < x.view.rank && kind == WindowIndex::range) room[i] = range_of(entries[i], x.view.dims[dim], dim, x);
    ++dim;
  }
  return room.first(entries.size());
}

Array places_from_lua(const Array& x, int axis, const Array& places) {
  const Dtype dtype = places.view.dtype;
  if ((dtype != Dtype::i64 && dtype != Dtype::i32 && dtype != Dtype::u8) || axis < 0 || axis >= x.view.rank) return places;
  const Array from_one = contiguous(cast(places, Dtype::i64)), result = new_array(from_one.view);
  for (int64_t i = 0; i < result.view.elements(); ++i)
    result.view.as<int64_t>()[i] = from_zero(from_one.view.as<int64_t>()[i], x.view.dims[axis], 0, axis, x);
  return result;
}

Array places_to_lua(Array places) {
  for (int64_t i = 0; i < places.view.elements(); ++i) ++places.view.as<int64_t>()[i];
  return places;
}

}  // namespace perigee
