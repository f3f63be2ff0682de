// Sizes of borders, as zero_padding and cropping have them.
#pragma once

#include "src/nn/layers/common.h"

namespace perigee {

// Numbers of rows and columns at the start and end of each dimension of x, the first two (batch, channels) being 0. The option is an
// integer, one per dimension, or two per dimension; x is an image or a sequence.
struct Borders {
  std::vector<int64_t> before, after;
};

inline Borders read_borders(const LayerContext& context, const char* key, Value x) {
  const Config& options = context.options();
  const int dims = x.rank() - 2;
  if (dims != 1 && dims != 2) context.fail("needs an image or a sequence", x.shape().text());
  const Json* given = options.raw(key);
  std::vector<int64_t> sides;
  if (given != nullptr && given->is_array()) {
    sides = options.integer_list(key);
    if (static_cast<int>(sides.size()) == dims && dims == 2) sides = {sides[0], sides[0], sides[1], sides[1]};
  } else {
    sides.assign(static_cast<size_t>(2 * dims), options.integer(key));
  }
  if (static_cast<int>(sides.size()) != 2 * dims)
    options.fail(key, "has the wrong number of sizes", std::to_string(sides.size()), dims == 2 ? "1, 2 or 4" : "1 or 2");
  Borders borders{{0, 0}, {0, 0}};
  for (int i = 0; i < dims; ++i)
    for (int side = 0; side < 2; ++side) {
      const int64_t size = sides[static_cast<size_t>(2 * i + side)];
      if (size < 0 || size > (1 << 20)) options.fail(key, "is out of range", std::to_string(size), "0 to 1048576");
      (side == 0 ? borders.before : borders.after).push_back(size);
    }
  return borders;
}

}  // namespace perigee
