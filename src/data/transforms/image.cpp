#include "src/data/transforms/image.h"

#include <algorithm>
#include <cstring>

namespace perigee {

ImageSize image_size(const Config& config, const Field& field) {
  const int rank = field.shape.rank();
  if (field.dtype != Dtype::f32 || (rank != 2 && rank != 3) || field.shape.elements() == 0)
    throw Error(ErrorKind::data, {.where = config.where(),
                                  .what = "field '" + field.name + "' is no image",
                                  .got = Type{field.dtype, field.shape}.text(),
                                  .expected = "f32 of channels x height x width, or height x width"});
  return {rank == 3 ? field.shape[0] : 1, field.shape[rank - 2], field.shape[rank - 1]};
}

Field with_size(const Field& field, int64_t height, int64_t width) {
  Field changed = field;
  const int rank = field.shape.rank();
  changed.shape = field.shape.with(rank - 2, height).with(rank - 1, width);
  return changed;
}

void copy_window(const float* from, const ImageSize& size, int64_t top, int64_t left, float* to, int64_t height, int64_t width,
                 float fill) {
  // The part of a row that lies inside is the same for all rows.
  const int64_t begin = std::clamp<int64_t>(-left, 0, width), end = std::clamp<int64_t>(size.width - left, begin, width);
  for (int64_t c = 0; c < size.channels; ++c)
    for (int64_t y = 0; y < height; ++y) {
      float* row = to + (c * height + y) * width;
      const int64_t source = y + top;
      if (source < 0 || source >= size.height) {
        std::fill(row, row + width, fill);
        continue;
      }
      std::fill(row, row + begin, fill);
      const float* line = from + c * size.pixels() + source * size.width;
      if (end > begin) std::memcpy(row + begin, line + left + begin, static_cast<size_t>(end - begin) * sizeof(float));
      std::fill(row + end, row + width, fill);
    }
}

}  // namespace perigee
