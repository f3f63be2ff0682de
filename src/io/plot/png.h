// Writing PNG files (ISO/IEC 15948), 8 bits a channel, RGB.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace perigee {

// The bytes of a file. `pixels`: height rows of width times red, green, blue. Error(resources).
std::string png_file(uint32_t width, uint32_t height, std::span<const uint8_t> pixels);

}  // namespace perigee
