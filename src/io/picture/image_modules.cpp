// WebP and TIFF by their libraries. No headers are needed to build: the few functions are declared here, as they have been for ten years.
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "src/core/error.h"
#include "src/io/module.h"
#include "src/io/picture/image_formats.h"

namespace perigee {
namespace {

struct WebP {
  WebP() : module({"libwebp.so.7"}, "WebP images", "libwebp7") {
    module.symbol("WebPGetInfo", info);
    module.symbol("WebPDecodeRGBAInto", decode);
  }
  Module module;
  int (*info)(const uint8_t*, size_t, int* width, int* height);
  uint8_t* (*decode)(const uint8_t*, size_t, uint8_t* to, size_t bytes, int stride);
};

// libtiff reads through functions; its types are opaque to us.
using TiffRead = int64_t (*)(void*, void*, int64_t);
using TiffSeek = uint64_t (*)(void*, uint64_t, int);
using TiffClose = int (*)(void*);
using TiffSize = uint64_t (*)(void*);
using TiffMap = int (*)(void*, void**, uint64_t*);
using TiffUnmap = void (*)(void*, void*, uint64_t);
using TiffError = int (*)(void* file, void* user, const char* module, const char* format, va_list);

struct Tiff {
  Tiff() : module({"libtiff.so.6"}, "TIFF images", "libtiff6") {
    module.symbol("TIFFOpenOptionsAlloc", new_options);
    module.symbol("TIFFOpenOptionsFree", free_options);
    module.symbol("TIFFOpenOptionsSetMaxSingleMemAlloc", limit_memory);
    module.symbol("TIFFOpenOptionsSetErrorHandlerExtR", on_error);
    module.symbol("TIFFOpenOptionsSetWarningHandlerExtR", on_warning);
    module.symbol("TIFFClientOpenExt", open);
    module.symbol("TIFFGetField", field);
    module.symbol("TIFFReadRGBAImageOriented", read);
    module.symbol("TIFFClose", close);
  }
  Module module;
  void* (*new_options)();
  void (*free_options)(void*);
  void (*limit_memory)(void*, int64_t);
  void (*on_error)(void*, TiffError, void* user);
  void (*on_warning)(void*, TiffError, void* user);
  void* (*open)(const char*, const char*, void*, TiffRead, TiffRead, TiffSeek, TiffClose, TiffSize, TiffMap, TiffUnmap, void* options);
  int (*field)(void*, uint32_t, ...);
  int (*read)(void*, uint32_t width, uint32_t height, uint32_t* raster, int orientation, int stop);
  void (*close)(void*);
};

struct TiffFile {
  std::span<const std::byte> bytes;
  uint64_t at = 0;
  char message[256] = "";

  static int64_t read(void* self, void* to, int64_t count) {
    auto& file = *static_cast<TiffFile*>(self);
    const uint64_t left = file.at < file.bytes.size() ? file.bytes.size() - file.at : 0,
                   n = std::min<uint64_t>(left, static_cast<uint64_t>(count));
    if (n > 0) std::memcpy(to, file.bytes.data() + file.at, n);
    file.at += n;
    return static_cast<int64_t>(n);
  }
  static int64_t write(void*, void*, int64_t) { return 0; }
  static uint64_t seek(void* self, uint64_t offset, int from) {
    auto& file = *static_cast<TiffFile*>(self);
    return file.at = offset + (from == SEEK_CUR ? file.at : from == SEEK_END ? file.bytes.size() : 0);
  }
  static uint64_t size(void* self) { return static_cast<TiffFile*>(self)->bytes.size(); }
  static int close(void*) { return 0; }
  static int map(void*, void**, uint64_t*) { return 0; }
  static void unmap(void*, void*, uint64_t) {}
  static int error(void*, void* self, const char*, const char* format, va_list values) {
    auto& file = *static_cast<TiffFile*>(self);
    if (*file.message == 0) std::vsnprintf(file.message, sizeof file.message, format, values);
    return 1;
  }
  static int warning(void*, void*, const char*, const char*, va_list) { return 1; }
};

constexpr uint32_t kTiffWidth = 256, kTiffHeight = 257;  // tags

// The orientation in the chunk of EXIF, which stands behind the picture.
int webp_orientation_of(std::span<const std::byte> bytes) {
  for (size_t i = 12; i + 8 <= bytes.size();) {
    size_t length = 0;
    for (size_t k = 4; k > 0; --k) length = length << 8 | std::to_integer<size_t>(bytes[i + 3 + k]);
    if (length > bytes.size() - i - 8) break;
    std::span<const std::byte> chunk = bytes.subspan(i + 8, length);
    if (as_text(bytes.subspan(i, 4)) == "EXIF") {
      if (as_text(chunk).starts_with("Exif")) chunk = chunk.subspan(std::min<size_t>(6, chunk.size()));
      return exif_orientation(chunk);
    }
    i += 8 + length + length % 2;
  }
  return 1;
}

}  // namespace

void decode_webp(std::span<const std::byte> bytes, const std::string& where, Picture& image) {
  static const WebP library;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  int width = 0, height = 0;
  if (!library.info(data, bytes.size(), &width, &height)) image_fails(where, "the WebP is damaged");
  make_room(image, where, width, height, bytes.size(), 4);
  auto* pixels = reinterpret_cast<uint8_t*>(image.pixels.data());
  if (library.decode(data, bytes.size(), pixels, image.pixels.size(), 4 * width) == nullptr)
    image_fails(where, "the WebP is damaged, or an animation, which is not read: save a frame of it");
  for (size_t i = 0; i < image.pixels.size(); i += 4)
    if (pixels[i + 3] != 255)
      for (size_t c = 0; c < 3; ++c) pixels[i + c] = static_cast<uint8_t>((pixels[i + c] * pixels[i + 3] + 127) / 255);
  pack_pixels(image, 4);
  turn_upright(image, webp_orientation_of(bytes));
}

void decode_tiff(std::span<const std::byte> bytes, const std::string& where, Picture& image) {
  static const Tiff library;
  TiffFile file{.bytes = bytes};
  const auto damaged = [&] { image_fails(where, std::string("the TIFF is damaged or of an unusual kind: ") + file.message); };
  void* options = library.new_options();
  library.limit_memory(options, 64 << 20);
  library.on_error(options, TiffFile::error, &file);
  library.on_warning(options, TiffFile::warning, &file);
  struct End {
    ~End() {
      if (handle != nullptr) library.close(handle);
    }
    void* handle;
  } end{library.open("picture", "rm", &file, TiffFile::read, TiffFile::write, TiffFile::seek, TiffFile::close, TiffFile::size,
                     TiffFile::map, TiffFile::unmap, options)};
  library.free_options(options);
  uint32_t width = 0, height = 0;
  if (end.handle == nullptr || !library.field(end.handle, kTiffWidth, &width) || !library.field(end.handle, kTiffHeight, &height))
    damaged();
  make_room(image, where, width, height, bytes.size(), 4);
  // Red is in the lowest byte of each number. The picture is turned as its orientation says.
  if (!library.read(end.handle, width, height, reinterpret_cast<uint32_t*>(image.pixels.data()), 1, 1) || *file.message != 0) damaged();
  pack_pixels(image, 4);
}

}  // namespace perigee
