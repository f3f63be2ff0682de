// PNG by libpng.
#include <png.h>

#include <cstring>

#include "src/core/error.h"
#include "src/io/module.h"
#include "src/io/picture/image_formats.h"

namespace perigee {
namespace {

struct Png {
  Png() : module({"libpng16.so.16"}, "PNG images", "libpng16-16") {
    module.symbol("png_image_begin_read_from_memory", begin);
    module.symbol("png_image_finish_read", finish);
    module.symbol("png_image_free", free);
    module.symbol("png_image_write_to_memory", write);
  }
  Module module;
  int (*begin)(png_imagep, png_const_voidp, size_t);
  int (*finish)(png_imagep, png_const_colorp, void*, png_int_32, void*);
  void (*free)(png_imagep);
  int (*write)(png_imagep, void*, png_alloc_size_t*, int, const void*, png_int_32, const void*);
};

const Png& png() {
  static const Png library;
  return library;
}

// The orientation in the chunk of EXIF, if there is one before the pixels.
int image_png_orientation_of(std::span<const std::byte> bytes) {
  for (size_t i = 8; i + 12 <= bytes.size();) {
    size_t length = 0;
    for (size_t k = 0; k < 4; ++k) length = length << 8 | std::to_integer<size_t>(bytes[i + k]);
    const std::string_view name = as_text(bytes.subspan(i + 4, 4));
    if (length > bytes.size() - i - 12 || name == "IDAT") break;
    if (name == "eXIf") return exif_orientation(bytes.subspan(i + 8, length));
    i += length + 12;
  }
  return 1;
}

// A PNG from its header to its pixels, freed at the end.
struct PngReading {
  explicit PngReading(const std::string& path) : where(path) { header.version = PNG_IMAGE_VERSION; }
  ~PngReading() { png().free(&header); }
  PngReading(const PngReading&) = delete;
  PngReading& operator=(const PngReading&) = delete;

  void begin(std::span<const std::byte> bytes) {
    if (!png().begin(&header, bytes.data(), bytes.size())) fail();
  }
  void finish(Picture& image, png_byte* colours) {
    const png_color black = {0, 0, 0};
    if (!png().finish(&header, &black, image.pixels.data(), 0, colours) || header.warning_or_error != 0) fail();
  }
  [[noreturn]] void fail() const { image_fails(where, std::string("the PNG is damaged: ") + header.message); }

  png_image header = {};
  const std::string& where;
};

}  // namespace

void decode_png(std::span<const std::byte> bytes, const std::string& where, Picture& image) {
  PngReading reading(where);
  reading.begin(bytes);
  png_image& header = reading.header;
  const bool colours = image.channels == 3 || (header.format & PNG_FORMAT_FLAG_COLOR) != 0;
  header.format = colours ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  header.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // else libpng takes 16 bits for linear light and brightens them
  make_room(image, where, header.width, header.height, bytes.size(), colours ? 3 : 1);
  reading.finish(image, nullptr);
  if (colours) pack_pixels(image, 3);
  turn_upright(image, image_png_orientation_of(bytes));
}

void decode_classes(std::span<const std::byte> bytes, const std::string& where, Picture& image) {
  constexpr size_t kDepth = 24, kColourType = 25;  // in the first chunk
  const auto at = [&](size_t i) { return i < bytes.size() ? std::to_integer<int>(bytes[i]) : -1; };
  const bool palette = at(kColourType) == 3;
  if (image_kind(bytes) != ImageKind::png || !(palette || (at(kColourType) == 0 && at(kDepth) == 8)))
    throw Error(ErrorKind::data, {.where = where, .what = "the mask is no PNG of classes", .expected = "grey of 8 bits, or a palette"});
  PngReading reading(where);
  reading.begin(bytes);
  png_image& header = reading.header;
  header.format = palette ? PNG_FORMAT_RGB_COLORMAP : PNG_FORMAT_GRAY;
  image.channels = 1;
  make_room(image, where, header.width, header.height, bytes.size(), 1);
  png_byte colours[256 * 3];
  reading.finish(image, palette ? colours : nullptr);
}

Bytes encode_png(const Picture& image, const std::string& where) {
  const Png& library = png();
  png_image header = {};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  Bytes bytes;
  for (int round = 0; round < 2; ++round) {  // first how many bytes, then those
    bytes.resize(size);
    if (!library.write(&header, round == 0 ? nullptr : bytes.data(), &size, 0, image.pixels.data(), 0, nullptr))
      image_fails(where, std::string("libpng: ") + header.message);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace perigee
