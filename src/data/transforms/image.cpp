#include "src/data/transforms/image.h"

#include <algorithm>
#include <cmath>
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

PlaneMap fitted_plane(const FitPlace& place) {
  const double across = place.part.width / static_cast<double>(place.width), down = place.part.height / static_cast<double>(place.height);
  return {across, 0,    place.part.left + (.5 - static_cast<double>(place.left)) * across - .5,
          0,      down, place.part.top + (.5 - static_cast<double>(place.top)) * down - .5,
          0,      0};
}

void read_range(const Config& config, std::string_view key, double most, double (&range)[2]) {
  const Json* list = config.raw(key);
  if (list == nullptr || list->is_null()) return;
  const auto& values = list->as_array();
  const bool two = values.size() == 2 && values[0].is_number() && values[1].is_number();
  if (!two || !(values[0].as_number() > 0) || values[0].as_number() > values[1].as_number() || values[1].as_number() > most)
    config.fail(key, "is no range", list->dump(), "{least, most}, above 0" + std::string(most <= 1 ? " and up to 1" : ""));
  for (size_t i = 0; i < 2; ++i) range[i] = values[i].as_number();
}

RandomPart::RandomPart(const Config& config) {
  read_range(config, "area", 1, area);
  read_range(config, "ratio", 1e3, ratio);
}

ImagePart RandomPart::draw(int64_t height, int64_t width, Draw& draw) const {
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  for (int i = 0; i < 10; ++i) {
    const double share = h * w * (area[0] + (area[1] - area[0]) * draw.uniform());
    const double shape = std::exp(std::log(ratio[0]) + (std::log(ratio[1]) - std::log(ratio[0])) * draw.uniform());
    const double columns = std::nearbyint(std::sqrt(share * shape)), rows = std::nearbyint(std::sqrt(share / shape));
    const auto top = static_cast<double>(draw.integer(std::max<int64_t>(1, height - static_cast<int64_t>(rows) + 1)));
    const auto left = static_cast<double>(draw.integer(std::max<int64_t>(1, width - static_cast<int64_t>(columns) + 1)));
    if (rows >= 1 && columns >= 1 && rows <= h && columns <= w) return {top, left, rows, columns};
  }
  double rows = h, columns = w;
  if (w / h < ratio[0]) rows = std::clamp(std::nearbyint(w / ratio[0]), 1., h);
  else if (w / h > ratio[1]) columns = std::clamp(std::nearbyint(h * ratio[1]), 1., w);
  return {std::floor((h - rows) / 2), std::floor((w - columns) / 2), rows, columns};
}

}  // namespace perigee
