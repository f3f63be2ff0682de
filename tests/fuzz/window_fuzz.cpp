// Indices of tensors: the first bytes are a shape, the others entries of an index. What a window shows is what a walk over the entries, one
// element at a time, finds; nothing outside the storage is touched.
#include "src/eager/window.h"

#include <algorithm>

#include "src/core/error.h"
#include "tests/fuzz/fuzz.h"

namespace {

using perigee::WindowIndex;

struct Reader {
  const uint8_t* data;
  size_t size;
  uint8_t byte() { return size == 0 ? 0 : (--size, *data++); }
  // Mostly near the sizes that occur, now and then far off.
  int64_t place() {
    const uint8_t b = byte();
    if (b == 255) return INT64_MAX;
    if (b == 254) return INT64_MIN;
    return static_cast<int64_t>(b % 20) - 9;
  }
};

// The places along a dimension that a range names, by stepping.
std::vector<int64_t> places(const WindowIndex& index) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < index.count; ++i) result.push_back(index.first + i * index.step);
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader{data, size};
  std::vector<int64_t> dims(reader.byte() % 6);
  for (int64_t& dim : dims) dim = reader.byte() % 6;
  const perigee::Shape shape(dims);
  const perigee::Array x(perigee::Tensor(perigee::Dtype::i32, shape));
  for (int64_t i = 0; i < shape.elements(); ++i) x.view.as<int32_t>()[i] = static_cast<int32_t>(i);
  std::vector<WindowIndex> indices(reader.byte() % 9);
  for (WindowIndex& index : indices)
    index = {static_cast<WindowIndex::Kind>(reader.byte() % 4), reader.place(), reader.place(), reader.place()};
  perigee::Array window;
  try {
    window = perigee::window(x, indices);
  } catch (const perigee::Error&) {
    return 0;
  }
  // Every element of the window in order, beside the element that the entries name.
  std::vector<int64_t> offsets = {0};
  int dim = 0;
  for (size_t i = 0; i < indices.size() || dim < shape.rank(); ++i) {
    const WindowIndex index = i < indices.size() ? indices[i] : WindowIndex();
    if (index.kind == WindowIndex::new_axis) continue;
    const std::vector<int64_t> along = index.kind == WindowIndex::at      ? std::vector<int64_t>{index.first}
                                       : index.kind == WindowIndex::range ? places(index)
                                                                          : places({WindowIndex::range, 0, shape[dim], 1});
    std::vector<int64_t> next;
    for (const int64_t offset : offsets)
      for (const int64_t place : along) {
        PERIGEE_FUZZ_CHECK(place >= 0 && place < shape[dim]);
        next.push_back(offset + place * x.view.strides[dim]);
      }
    offsets = next;
    ++dim;
  }
  PERIGEE_FUZZ_CHECK(window.view.elements() == static_cast<int64_t>(offsets.size()));
  std::vector<int64_t> index(static_cast<size_t>(window.view.rank), 0);
  for (const int64_t expected : offsets) {
    int64_t offset = 0;
    for (int d = 0; d < window.view.rank; ++d) offset += index[static_cast<size_t>(d)] * window.view.strides[d];
    PERIGEE_FUZZ_CHECK(window.view.as<int32_t>()[offset] == expected);
    for (int d = window.view.rank - 1; d >= 0 && ++index[static_cast<size_t>(d)] == window.view.dims[d]; --d)
      index[static_cast<size_t>(d)] = 0;
  }
  return 0;
}
