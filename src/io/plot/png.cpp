#include "src/io/plot/png.h"

#include <zlib.h>

#include <cassert>
#include <vector>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kChannels = 3;

std::string png_big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8), static_cast<char>(value)};
}

// A chunk: length, type, content, and a checksum of type and content.
std::string chunk(const char* type, const std::string& content) {
  const std::string named = type + content;
  const auto sum = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(named.data()), static_cast<uInt>(named.size())));
  return png_big_endian(static_cast<uint32_t>(content.size())) + named + png_big_endian(sum);
}

}  // namespace

std::string png_file(uint32_t width, uint32_t height, std::span<const uint8_t> pixels) {
  const size_t row = width * kChannels;
  assert(width > 0 && height > 0 && pixels.size() == row * height);
  std::vector<uint8_t> filtered;
  filtered.reserve((row + 1) * height);
  for (size_t y = 0; y < height; ++y) {
    filtered.push_back(0);  // no filter
    const auto line = pixels.subspan(y * row, row);
    filtered.insert(filtered.end(), line.begin(), line.end());
  }
  uLongf size = compressBound(static_cast<uLong>(filtered.size()));
  std::string packed(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size, filtered.data(), static_cast<uLong>(filtered.size()), 9) != Z_OK)
    throw Error(ErrorKind::resources, {.where = "PNG", .what = "there is no memory to compress an image"});
  packed.resize(size);
  // 8 bits a channel, colour type 2 (RGB), and no choice but 0 in the others: compression, filters, interlacing.
  const std::string header = png_big_endian(width) + png_big_endian(height) + std::string("\x08\x02\x00\x00\x00", 5);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", packed) + chunk("IEND", "");
}

}  // namespace perigee
