// Shared by the transforms of images: f32 fields of C,H,W or H,W.
#pragma once

#include "src/data/transform.h"
#include "src/io/image.h"

namespace perigee {

struct ImageSize {
  int64_t channels = 1, height = 0, width = 0;
  int64_t pixels() const { return height * width; }
};

// Error(data) when the field is no f32 image.
ImageSize image_size(const Config& config, const Field& field);
Field with_size(const Field& field, int64_t height, int64_t width);

// to[y][x] = from[y + top][x + left] in each channel, `fill` where that lies outside.
void copy_window(const float* from, const ImageSize& size, int64_t top, int64_t left, float* to, int64_t height, int64_t width, float fill);

// Where a picture's pixels go when a part of it is brought to a size.
PlaneMap fitted_plane(const FitPlace& place);

// The option `key`, {least, most}, into `range`, which has the default. Error when it is no such pair, not above 0, or above `most`.
void read_range(const Config& config, std::string_view key, double most, double (&range)[2]);

// The part of a picture that torchvision's RandomResizedCrop takes: of a share of the area and a ratio of width to height from these ranges, ten
// tries, else as much of the middle as the ratio allows.
struct RandomPart {
  double area[2] = {.08, 1}, ratio[2] = {3. / 4, 4. / 3};
  RandomPart(const Config& config);  // reads "area" and "ratio"
  ImagePart draw(int64_t height, int64_t width, Draw& draw) const;
};
inline constexpr Option kRandomPartOptions[] = {
    {"area", "list of numbers", "{0.08, 1}", "share of the picture that is taken: least, most", {0, 1}},
    {"ratio", "list of numbers", "{3/4, 4/3}", "width over height of what is taken: least, most"}};

}  // namespace perigee
