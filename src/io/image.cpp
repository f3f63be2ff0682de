#include "src/io/image.h"

#include <cstdio>

#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <vector>

#include "src/core/error.h"
#include "src/io/module.h"

namespace perigee {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 26;
constexpr int64_t kMaxPixelsPerByte = 1 << 14;  // twice what deflate reaches with one bit a pixel: more is an attack

[[noreturn]] void fail(const std::string& where, const std::string& what) { throw Error(ErrorKind::data, {.where = where, .what = what}); }

void check_size(const std::string& where, int64_t width, int64_t height, size_t bytes) {
  if (width < 1 || height < 1 || width > kMaxPixels / height || width * height / kMaxPixelsPerByte > static_cast<int64_t>(bytes))
    fail(where, "the image is " + std::to_string(width) + "x" + std::to_string(height) + " pixels, more than can be decoded");
}

struct Jpeg {
  Jpeg() : module({"libjpeg.so.62"}, "JPEG images", "libjpeg62-turbo") {
    module.symbol("jpeg_std_error", std_error);
    module.symbol("jpeg_CreateDecompress", create);
    module.symbol("jpeg_mem_src", mem_src);
    module.symbol("jpeg_read_header", read_header);
    module.symbol("jpeg_start_decompress", start);
    module.symbol("jpeg_read_scanlines", read_scanlines);
    module.symbol("jpeg_finish_decompress", finish);
    module.symbol("jpeg_destroy_decompress", destroy);
  }
  Module module;
  jpeg_error_mgr* (*std_error)(jpeg_error_mgr*);
  void (*create)(j_decompress_ptr, int, size_t);
  void (*mem_src)(j_decompress_ptr, const unsigned char*, unsigned long);
  int (*read_header)(j_decompress_ptr, boolean);
  boolean (*start)(j_decompress_ptr);
  JDIMENSION (*read_scanlines)(j_decompress_ptr, JSAMPARRAY, JDIMENSION);
  boolean (*finish)(j_decompress_ptr);
  void (*destroy)(j_decompress_ptr);
};

// libjpeg reports errors by a function that must not return.
struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
  bool warned;
};

void jpeg_failed(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}
// A warning is damage that libjpeg would paint over: a file that is cut short is filled up with grey.
void jpeg_message(j_common_ptr info, int level) {
  if (level < 0) jpeg_failed(info);
}

void prepare(Picture& image, const jpeg_decompress_struct& header, const std::string& where, size_t bytes) {
  check_size(where, header.image_width, header.image_height, bytes);
  image.width = header.image_width;
  image.height = header.image_height;
  image.pixels.resize(static_cast<size_t>(image.width * image.height * image.channels));
}

// Only plain data live in this frame: longjmp runs no destructors. False: `errors.message` says why.
bool decode_jpeg_rows(const Jpeg& library, std::span<const std::byte> bytes, int64_t channels, JpegErrors& errors,
                      jpeg_decompress_struct& info, Picture& image, const std::string& where) {
  if (setjmp(errors.back) != 0) return false;
  library.mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  library.read_header(&info, TRUE);
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  info.mem->max_memory_to_use = 512l << 20;
  prepare(image, info, where, bytes.size());
  library.start(&info);
  while (info.output_scanline < info.output_height) {
    auto* row = reinterpret_cast<JSAMPROW>(image.pixels.data()) +
                static_cast<size_t>(info.output_scanline) * info.output_width * static_cast<size_t>(channels);
    library.read_scanlines(&info, &row, 1);
  }
  library.finish(&info);
  return true;
}

void decode_jpeg(std::span<const std::byte> bytes, const std::string& where, int64_t channels, Picture& image) {
  static const Jpeg library;
  JpegErrors errors = {};
  jpeg_decompress_struct info = {};
  info.err = library.std_error(&errors.base);
  errors.base.error_exit = jpeg_failed;
  errors.base.emit_message = jpeg_message;
  if (setjmp(errors.back) != 0) fail(where, std::string("libjpeg: ") + errors.message);
  library.create(&info, JPEG_LIB_VERSION, sizeof info);
  struct End {
    const Jpeg& library;
    jpeg_decompress_struct& info;
    ~End() { library.destroy(&info); }
  } end{library, info};
  image.channels = channels;
  if (!decode_jpeg_rows(library, bytes, channels, errors, info, image, where))
    fail(where, std::string("the JPEG is damaged: ") + errors.message);
}

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

void decode_png(std::span<const std::byte> bytes, const std::string& where, int64_t channels, Picture& image) {
  const Png& library = png();
  png_image header = {};
  header.version = PNG_IMAGE_VERSION;
  struct End {
    const Png& library;
    png_image& header;
    ~End() { library.free(&header); }
  } end{library, header};
  if (!library.begin(&header, bytes.data(), bytes.size())) fail(where, std::string("the PNG is damaged: ") + header.message);
  check_size(where, header.width, header.height, bytes.size());
  header.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  image.width = header.width;
  image.height = header.height;
  image.channels = channels;
  image.pixels.resize(static_cast<size_t>(image.width * image.height * channels));
  const png_color black = {0, 0, 0};
  if (!library.finish(&header, &black, image.pixels.data(), 0, nullptr) || header.warning_or_error != 0)
    fail(where, std::string("the PNG is damaged: ") + header.message);
}

// Which source pixels each target pixel takes, and how much of each.
struct Taps {
  std::vector<int64_t> first, count;  // per target pixel
  std::vector<float> weights;         // `stride` per target pixel
  int64_t stride = 0;

  // A triangle as wide as a target pixel, at least as a source pixel: bilinear when growing, an average when shrinking.
  void lay(int64_t from, int64_t to) {
    const double ratio = static_cast<double>(from) / static_cast<double>(to), reach = std::max(ratio, 1.0);
    stride = 2 * static_cast<int64_t>(std::ceil(reach)) + 1;
    first.resize(static_cast<size_t>(to));
    count.resize(static_cast<size_t>(to));
    weights.resize(static_cast<size_t>(to * stride));
    for (int64_t i = 0; i < to; ++i) {
      const double centre = (static_cast<double>(i) + .5) * ratio - .5;
      const auto low = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(centre - reach)));
      const auto high = std::min<int64_t>(from - 1, static_cast<int64_t>(std::floor(centre + reach)));
      float* weight = weights.data() + i * stride;
      double sum = 0;
      for (int64_t k = low; k <= high; ++k) {
        weight[k - low] = static_cast<float>(std::max(0.0, 1 - std::fabs(static_cast<double>(k) - centre) / reach));
        sum += weight[k - low];
      }
      for (int64_t k = low; k <= high; ++k) weight[k - low] = static_cast<float>(weight[k - low] / sum);
      first[static_cast<size_t>(i)] = low;
      count[static_cast<size_t>(i)] = high - low + 1;
    }
  }
};

}  // namespace

ImageKind image_kind(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  if (text.starts_with("\xff\xd8\xff")) return ImageKind::jpeg;
  if (text.starts_with("\x89PNG\r\n\x1a\n")) return ImageKind::png;
  return ImageKind::none;
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
      fail(where, std::string("libpng: ") + header.message);
  }
  bytes.resize(size);
  return bytes;
}

void decode_image(std::span<const std::byte> bytes, const std::string& where, int64_t channels, Picture& image) {
  switch (image_kind(bytes)) {
    case ImageKind::jpeg: return decode_jpeg(bytes, where, channels, image);
    case ImageKind::png: return decode_png(bytes, where, channels, image);
    case ImageKind::none: fail(where, "neither a JPEG nor a PNG image");
  }
}

void resize_image(const Picture& image, int64_t height, int64_t width, float scale, float* planes) {
  const auto* from = reinterpret_cast<const uint8_t*>(image.pixels.data());
  const int64_t c = image.channels;
  if (image.height == height && image.width == width) {
    for (int64_t k = 0; k < c; ++k)
      for (int64_t i = 0; i < height * width; ++i) planes[k * height * width + i] = static_cast<float>(from[i * c + k]) * scale;
    return;
  }
  thread_local Taps rows, columns;
  thread_local std::vector<float> line;
  rows.lay(image.height, height);
  columns.lay(image.width, width);
  line.resize(static_cast<size_t>(image.width * c));
  for (int64_t y = 0; y < height; ++y) {
    std::fill(line.begin(), line.end(), 0.f);
    for (int64_t t = 0; t < rows.count[static_cast<size_t>(y)]; ++t) {
      const uint8_t* source = from + (rows.first[static_cast<size_t>(y)] + t) * image.width * c;
      const float weight = rows.weights[static_cast<size_t>(y * rows.stride + t)];
      for (size_t i = 0; i < line.size(); ++i) line[i] += weight * static_cast<float>(source[i]);
    }
    for (int64_t x = 0; x < width; ++x) {
      const float* weights = columns.weights.data() + x * columns.stride;
      const float* pixels = line.data() + columns.first[static_cast<size_t>(x)] * c;
      for (int64_t k = 0; k < c; ++k) {
        float sum = 0;
        for (int64_t t = 0; t < columns.count[static_cast<size_t>(x)]; ++t) sum += weights[t] * pixels[t * c + k];
        planes[(k * height + y) * width + x] = sum * scale;
      }
    }
  }
}

}  // namespace perigee
