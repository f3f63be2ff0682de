#include "src/eager/window.h"

#include "src/core/error.h"

namespace perigee {
namespace {

[[noreturn]] void refuse_window(std::string what, std::string got, std::string expected) {
  throw Error(ErrorKind::model, {.what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

// The last of `count` places from `first`; false when it is no number, or when a step of 0 repeats a place.
bool last_of(const WindowIndex& index, int64_t* last) {
  if (index.count < 1 || (index.count > 1 && index.step == 0)) return false;
  return !__builtin_mul_overflow(index.count - 1, index.step, last) && !__builtin_add_overflow(index.first, *last, last);
}

// The first element of what the entry holds, in a dimension of `size`.
int64_t first_of(const WindowIndex& index, int64_t size, int dim, const Array& x) {
  if (index.kind == WindowIndex::range && index.count == 0) return 0;
  int64_t last = index.first;
  const bool known = index.kind != WindowIndex::range || last_of(index, &last);
  if (!known || index.first < 0 || index.first >= size || last < 0 || last >= size)
    refuse_window("a window leaves dimension " + std::to_string(dim), x.text(), "places 0 to " + std::to_string(size - 1));
  return index.first;
}

}  // namespace

Array window(const Array& x, std::span<const WindowIndex> indices) {
  Array result(x.storage, x.view);
  View& view = result.view;
  view.rank = 0;
  int dim = 0;
  int64_t offset = 0;
  const auto keep = [&](int64_t size, int64_t stride) {
    if (view.rank == kMaxRank) refuse_window("an index gives too many dimensions", x.text(), "at most " + std::to_string(kMaxRank));
    view.dims[view.rank] = size;
    view.strides[view.rank++] = stride;
  };
  for (const WindowIndex& index : indices) {
    if (index.kind == WindowIndex::new_axis) {
      keep(1, 1);
      continue;
    }
    if (dim == x.view.rank)
      refuse_window("an index has more entries than the tensor has dimensions", x.text(), "at most " + std::to_string(x.view.rank));
    const int64_t size = x.view.dims[dim], stride = x.view.strides[dim];
    if (index.kind == WindowIndex::at) {
      offset += first_of(index, size, dim, x) * stride;
    } else if (index.kind == WindowIndex::range) {
      offset += first_of(index, size, dim, x) * stride;
      keep(index.count, stride * (index.count > 1 ? index.step : 1));
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
