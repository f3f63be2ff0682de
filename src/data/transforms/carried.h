// Fields that lie on a picture go where it goes: boxes of objects, and masks that give each pixel a class.
#pragma once

#include "src/data/transform.h"

namespace perigee {

constexpr int64_t kBoxNumbers = 5;  // left, top, right, bottom, class

// `count` boxes on a picture of which `map` says where the pixels come from now, each the least one around the old one's corners, cut to `height` x
// `width`. Left out is that of which less than the share `visible` stays, or less than a pixel each way; those that stay come first, in their
// order, and -1 is the class of the rest.
void carry_boxes(const float* from, int64_t count, const PlaneMap& map, int64_t height, int64_t width, double visible, float* to);

// The class of the nearest pixel; 0 where there was no picture.
void carry_mask(const int64_t* from, int64_t from_height, int64_t from_width, const PlaneMap& map, int64_t height, int64_t width,
                int64_t* to);

}  // namespace perigee
