#include "src/io/image.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "src/core/error.h"
#include "src/io/picture/image_formats.h"

namespace perigee {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 26, kManyPixels = int64_t{1} << 24;
constexpr int64_t kMaxPixelsPerByte = 1 << 14;  // twice what deflate reaches with one bit a pixel: more is an attack
constexpr int64_t kManyPixelsPerByte = 16;      // of large pictures: a 1 MB file takes no more than 64 MB

}  // namespace

void image_fails(const std::string& where, const std::string& what) { throw Error(ErrorKind::data, {.where = where, .what = what}); }

void check_image_size(const std::string& where, int64_t width, int64_t height, size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  const bool outside = width < 1 || height < 1 || width > kMaxPixels / height;
  if (outside || width * height / kMaxPixelsPerByte > size || (width * height > kManyPixels && width * height / kManyPixelsPerByte > size))
    image_fails(where, "the image is " + std::to_string(width) + "x" + std::to_string(height) + " pixels, more than can be decoded");
}

void make_room(Picture& image, const std::string& where, int64_t width, int64_t height, size_t bytes, int64_t bytes_per_pixel) {
  check_image_size(where, width, height, bytes);
  image.width = width, image.height = height;
  image.pixels.resize(static_cast<size_t>(width * height * bytes_per_pixel));
}

void pack_pixels(Picture& image, int64_t bytes_per_pixel) {
  const auto pixels = static_cast<size_t>(image.width * image.height), channels = static_cast<size_t>(image.channels);
  const std::byte* from = image.pixels.data();
  std::byte* to = image.pixels.data();
  const auto value = [&](size_t c) { return std::to_integer<int>(from[c]); };
  for (size_t i = 0; i < pixels; ++i, from += bytes_per_pixel, to += channels) {
    if (channels == 1) *to = grey_of(value(0), value(1), value(2));
    else std::memmove(to, from, 3);
  }
  image.pixels.resize(pixels * channels);
}

int exif_orientation(std::span<const std::byte> exif) {
  if (exif.size() < 8) return 1;
  const bool big = exif[0] == std::byte{'M'};
  // 0 beyond the end.
  const auto number = [&](size_t at, size_t count) {
    size_t value = 0;
    for (size_t i = 0; i < count && at + i < exif.size(); ++i)
      value |= std::to_integer<size_t>(exif[at + i]) << (8 * (big ? count - 1 - i : i));
    return value;
  };
  const size_t table = number(4, 4), entries = number(table, 2);
  for (size_t i = 0; i < entries && table + 14 + 12 * i <= exif.size(); ++i) {
    const size_t at = table + 2 + 12 * i, value = number(at + 8, 2);
    if (number(at, 2) == 0x112) return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

void turn_upright(Picture& image, int orientation) {
  if (orientation == 1) return;
  thread_local Bytes turned;
  turned.resize(image.pixels.size());
  const int64_t h = image.height, w = image.width;
  const bool lies = orientation >= 5, down = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool mirrored = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  std::byte* to = turned.data();
  for (int64_t y = 0; y < (lies ? w : h); ++y)
    for (int64_t x = 0; x < (lies ? h : w); ++x, to += image.channels) {
      const int64_t row = lies ? x : y, column = lies ? y : x;
      const int64_t from = (down ? h - 1 - row : row) * w + (mirrored ? w - 1 - column : column);
      std::copy_n(image.pixels.data() + from * image.channels, image.channels, to);
    }
  if (lies) std::swap(image.width, image.height);
  std::swap(image.pixels, turned);
}

ImageKind image_kind(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  if (text.starts_with("\xff\xd8\xff")) return ImageKind::jpeg;
  if (text.starts_with("\x89PNG\r\n\x1a\n")) return ImageKind::png;
  if (text.starts_with("GIF87a") || text.starts_with("GIF89a")) return ImageKind::gif;
  if (text.starts_with("RIFF") && text.size() >= 12 && text.substr(8, 4) == "WEBP") return ImageKind::webp;
  if (text.starts_with(std::string_view("II*\0", 4)) || text.starts_with(std::string_view("MM\0*", 4))) return ImageKind::tiff;
  // Two letters are few: the size of the header must be one that there is.
  if (text.starts_with("BM") && text.size() >= 18 && text[15] == 0 && text[16] == 0 && text[17] == 0 && text[14] >= 12)
    return ImageKind::bmp;
  return ImageKind::none;
}

bool is_image_suffix(std::string_view suffix) {
  static constexpr std::string_view kNames[] = {"jpg", "jpeg", "png", "bmp", "gif", "webp", "tif", "tiff"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](std::string_view name) {
    return std::equal(name.begin(), name.end(), suffix.begin(), suffix.end(),
                      [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
  });
}

ImagePart decode_part(std::span<const std::byte> bytes, const std::string& where, int64_t channels, const WantedPart& wanted,
                      Picture& image) {
  image.channels = channels;
  if (image_kind(bytes) == ImageKind::jpeg) return decode_jpeg(bytes, where, &wanted, image);
  decode_image(bytes, where, channels, image);
  return wanted.choose(image.height, image.width);
}

void decode_image(std::span<const std::byte> bytes, const std::string& where, int64_t channels, Picture& image) {
  image.channels = channels;
  switch (image_kind(bytes)) {
    case ImageKind::jpeg: decode_jpeg(bytes, where, nullptr, image); return;
    case ImageKind::png: return decode_png(bytes, where, image);
    case ImageKind::bmp: return decode_bmp(bytes, where, image);
    case ImageKind::gif: return decode_gif(bytes, where, image);
    case ImageKind::webp: return decode_webp(bytes, where, image);
    case ImageKind::tiff: return decode_tiff(bytes, where, image);
    case ImageKind::none: image_fails(where, std::string("no image of a kind that is read: ") + kImageSuffixes);
  }
}

}  // namespace perigee
