#include "src/io/plot/graphics.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <utility>

#include "src/io/base64.h"
#include "src/io/plot/png.h"

namespace perigee {
namespace {

constexpr size_t kMostColours = 256;
constexpr int kBand = 6;  // rows of a sixel

uint32_t colour_at(const PixelImage& image, size_t pixel) {
  const uint8_t* at = &image.rgb[pixel * 3];
  return uint32_t{at[0]} << 16 | uint32_t{at[1]} << 8 | at[2];
}

// The nearest of 6 x 7 x 6 colours: an eye tells greens apart best.
uint32_t in_cube(uint32_t colour) {
  const auto nearest = [](uint32_t value, uint32_t steps) { return (value * steps + 127) / 255 * 255 / steps; };
  return nearest(colour >> 16 & 255, 5) << 16 | nearest(colour >> 8 & 255, 6) << 8 | nearest(colour & 255, 5);
}

// The number of each pixel's colour, and the colours.
std::vector<uint8_t> indexed(const PixelImage& image, std::vector<uint32_t>* colours) {
  const size_t pixels = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
  for (const bool all : {true, false}) {
    std::map<uint32_t, uint8_t> numbers;
    std::vector<uint8_t> result(pixels);
    colours->clear();
    size_t i = 0;
    for (; i < pixels; ++i) {
      const uint32_t colour = all ? colour_at(image, i) : in_cube(colour_at(image, i));
      const auto [found, fresh] = numbers.try_emplace(colour, static_cast<uint8_t>(colours->size()));
      if (fresh && colours->size() == kMostColours) break;
      if (fresh) colours->push_back(colour);
      result[i] = found->second;
    }
    if (i == pixels) return result;
  }
  assert(false);  // the cube has 252
  return {};
}

void add_run(std::string* text, char sixel, int count) {
  if (count > 3) *text += "!" + std::to_string(count) + sixel;
  else text->append(static_cast<size_t>(count), sixel);
}

// One colour's pixels of a band.
std::string row_of(const std::vector<uint8_t>& pixels, const PixelImage& image, int top, uint8_t colour) {
  std::string text;
  char last = 0;
  int count = 0;
  for (int x = 0; x < image.width; ++x) {
    int mask = 0;
    for (int y = top; y < std::min(top + kBand, image.height); ++y)
      if (pixels[static_cast<size_t>(y) * static_cast<size_t>(image.width) + static_cast<size_t>(x)] == colour) mask |= 1 << (y - top);
    const char sixel = static_cast<char>('?' + mask);
    if (sixel != last && count > 0) add_run(&text, last, std::exchange(count, 0));
    last = sixel;
    ++count;
  }
  if (last != '?') add_run(&text, last, count);
  return text;
}

}  // namespace

std::string sixel_sequence(const PixelImage& image) {
  std::vector<uint32_t> colours;
  const std::vector<uint8_t> pixels = indexed(image, &colours);
  const auto percent = [](uint32_t value) { return std::to_string(((value & 255) * 100 + 127) / 255); };
  std::string text = "\x1bP0;1;0q\"1;1;" + std::to_string(image.width) + ";" + std::to_string(image.height);
  for (size_t i = 0; i < colours.size(); ++i)
    text += "#" + std::to_string(i) + ";2;" + percent(colours[i] >> 16) + ";" + percent(colours[i] >> 8) + ";" + percent(colours[i]);
  for (int top = 0; top < image.height; top += kBand) {
    std::array<bool, kMostColours> used = {};
    const auto begin = pixels.begin() + static_cast<int64_t>(top) * image.width;
    const auto end = pixels.begin() + static_cast<int64_t>(std::min(top + kBand, image.height)) * image.width;
    for (auto pixel = begin; pixel != end; ++pixel) used[*pixel] = true;
    for (size_t i = 0; i < colours.size(); ++i)
      if (used[i]) text += "#" + std::to_string(i) + row_of(pixels, image, top, static_cast<uint8_t>(i)) + "$";
    text += "-";
  }
  return text + "\x1b\\";
}

std::string kitty_sequence(const PixelImage& image) {
  constexpr size_t kChunk = 4096;
  const std::string data = base64(png_file(static_cast<uint32_t>(image.width), static_cast<uint32_t>(image.height), image.rgb));
  std::string text;
  for (size_t at = 0; at < data.size(); at += kChunk) {
    const bool more = at + kChunk < data.size();
    text +=
        std::string("\x1b_G") + (at == 0 ? "a=T,f=100,q=2," : "") + "m=" + (more ? "1" : "0") + ";" + data.substr(at, kChunk) + "\x1b\\";
  }
  return text;
}

}  // namespace perigee
