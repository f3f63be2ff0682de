// Pictures seen through a map of the plane, for the transforms that turn, move, shear and tilt them.
#pragma once

#include "src/data/transforms/image.h"

namespace perigee {

// How a map is applied: nearest or bilinear, and what is seen where there is no picture.
struct Sampling {
  bool bilinear = true;
  float fill = 0;
};
inline constexpr Option kSamplingOptions[] = {
    {"interpolation", "name", "bilinear", "of pixels between others", {}, {"bilinear", "nearest"}},
    {"fill", "number", "0", "value of new pixels"}};
Sampling sampling_of(const Config& config);

void warp_image(const float* from, const ImageSize& size, const PlaneMap& map, const Sampling& sampling, float* to);

// About the middle, clockwise by `degrees`, then larger by `scale`, sheared by angles and moved by pixels: torchvision's functional.affine.
struct AffineParts {
  double degrees = 0, scale = 1, shear_x = 0, shear_y = 0, right = 0, down = 0;
};
PlaneMap affine_map(const ImageSize& size, const AffineParts& parts, bool about_corner = false);

// Moves the four corners (x, y) of a picture, from the upper left one clockwise, to `corners`.
PlaneMap perspective_map(const ImageSize& size, const double (&corners)[4][2]);

}  // namespace perigee
