// Pictures for terminals that show them: as sixels (DEC STD 070, chapter 9), or by kitty's graphics protocol.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/io/plot/chart.h"

namespace perigee {

struct PixelImage {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // height rows of width times red, green, blue
};

// The charts of png_charts(), half as large.
PixelImage chart_pixels(const std::string& title, const std::vector<Chart>& charts);

// The sequences that show an image where the cursor is. Sixels have at most 256 colours: an image with more has the nearest of a cube.
std::string sixel_sequence(const PixelImage& image);
// It asks the terminal for no answer. Error(resources).
std::string kitty_sequence(const PixelImage& image);

}  // namespace perigee
