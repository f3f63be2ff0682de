// JPEG by libjpeg-turbo, which decodes at 1/2, 1/4 and 1/8 of the size and leaves out rows and columns.
#include <cstdio>

#include <jpeglib.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstring>

#include "src/core/error.h"
#include "src/io/module.h"
#include "src/io/picture/image_formats.h"

namespace perigee {
namespace {

struct Jpeg {
  Jpeg() : module({"libjpeg.so.62"}, "JPEG images", "libjpeg62-turbo") {
    module.symbol("jpeg_std_error", std_error);
    module.symbol("jpeg_CreateDecompress", create);
    module.symbol("jpeg_mem_src", mem_src);
    module.symbol("jpeg_read_header", read_header);
    module.symbol("jpeg_start_decompress", start);
    module.symbol("jpeg_crop_scanline", crop);
    module.symbol("jpeg_skip_scanlines", skip);
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
  void (*crop)(j_decompress_ptr, JDIMENSION*, JDIMENSION*);
  JDIMENSION (*skip)(j_decompress_ptr, JDIMENSION);
  JDIMENSION (*read_scanlines)(j_decompress_ptr, JSAMPARRAY, JDIMENSION);
  boolean (*finish)(j_decompress_ptr);
  void (*destroy)(j_decompress_ptr);
};

// libjpeg reports errors by a function that must not return.
struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
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

// The orientation in the segment of EXIF, if there is one before the picture.
int image_jpeg_orientation_of(std::span<const std::byte> bytes) {
  const auto at = [&](size_t i) { return std::to_integer<size_t>(bytes[i]); };
  for (size_t i = 2; i + 4 <= bytes.size() && at(i) == 0xff;) {
    if (at(i + 1) == 0xff) {
      ++i;
      continue;
    }
    const size_t marker = at(i + 1), length = at(i + 2) << 8 | at(i + 3);
    if (marker == 0xda || length < 2 || length > bytes.size() - i - 2) break;
    if (marker == 0xe1 && length >= 8 && std::memcmp(bytes.data() + i + 4, "Exif\0\0", 6) == 0)
      return exif_orientation(bytes.subspan(i + 10, length - 8));
    i += 2 + length;
  }
  return 1;
}

// The decoded pixels: those of the picture at 1/denominator, from which columns and rows are left out.
struct Plan {
  ImagePart part;  // in the pixels that are decoded
  unsigned denominator = 1, first_row = 0, rows = 0, first_column = 0, columns = 0;
};

// Smoothing of the colours looks at neighbours: with a few more on each side the pixels are those of the whole picture.
constexpr double kMargin = 4;

Plan plan_of(const WantedPart* wanted, int64_t height, int64_t width, int orientation) {
  const bool lies = orientation >= 5;
  Plan plan{.part = {0, 0, static_cast<double>(lies ? width : height), static_cast<double>(lies ? height : width)}};
  if (wanted != nullptr) {
    plan.part = wanted->choose(lies ? width : height, lies ? height : width);
    const auto large = [&](unsigned d) {
      return plan.part.height >= 2. * d * static_cast<double>(wanted->height) &&
             plan.part.width >= 2. * d * static_cast<double>(wanted->width);
    };
    while (wanted->scaled && plan.denominator < 8 && large(2 * plan.denominator)) plan.denominator *= 2;
    for (double* length : {&plan.part.top, &plan.part.left, &plan.part.height, &plan.part.width}) *length /= plan.denominator;
  }
  return plan;
}

void lay(double from, double length, unsigned whole, unsigned& first, unsigned& count) {
  first = static_cast<unsigned>(std::max(0., std::floor(from) - kMargin));
  count = static_cast<unsigned>(std::min<double>(whole, std::ceil(from + length) + kMargin)) - first;
}

// Only plain data live in the frames of these two: longjmp runs no destructors. False: `errors.message` says why.
bool read_header(const Jpeg& library, std::span<const std::byte> bytes, JpegErrors& errors, jpeg_decompress_struct& info) {
  if (setjmp(errors.back) != 0) return false;
  library.mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  library.read_header(&info, TRUE);
  return true;
}

bool read_rows(const Jpeg& library, JpegErrors& errors, jpeg_decompress_struct& info, bool cut, Plan& plan, Picture& image, size_t stride) {
  if (setjmp(errors.back) != 0) return false;
  library.start(&info);
  JDIMENSION left = plan.first_column, columns = plan.columns;
  if (cut && columns < info.output_width) library.crop(&info, &left, &columns);
  plan.first_column = left, plan.columns = columns;
  if (cut && plan.first_row > 0) library.skip(&info, plan.first_row);
  for (unsigned row = 0; row < plan.rows; ++row) {
    auto* to = reinterpret_cast<JSAMPROW>(image.pixels.data()) + row * stride * columns;
    library.read_scanlines(&info, &to, 1);
  }
  if (info.output_scanline == info.output_height) library.finish(&info);
  return true;
}

// Inks, 255 for none as Adobe writes them, to colours.
void colours_of_inks(Picture& image, bool inverted) {
  auto* pixel = reinterpret_cast<uint8_t*>(image.pixels.data());
  for (int64_t i = 0; i < image.width * image.height; ++i, pixel += 4) {
    if (!inverted)
      for (int c = 0; c < 4; ++c) pixel[c] = static_cast<uint8_t>(255 - pixel[c]);
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - pixel[c]) * pixel[3] + 128;
      pixel[c] = static_cast<uint8_t>(pixel[3] - (((product >> 8) + product) >> 8));
    }
  }
}

}  // namespace

ImagePart decode_jpeg(std::span<const std::byte> bytes, const std::string& where, const WantedPart* wanted, Picture& image) {
  static const Jpeg library;
  JpegErrors errors = {};
  jpeg_decompress_struct info = {};
  info.err = library.std_error(&errors.base);
  errors.base.error_exit = jpeg_failed;
  errors.base.emit_message = jpeg_message;
  if (setjmp(errors.back) != 0) image_fails(where, std::string("libjpeg: ") + errors.message);
  library.create(&info, JPEG_LIB_VERSION, sizeof info);
  struct End {
    const Jpeg& library;
    jpeg_decompress_struct& info;
    ~End() { library.destroy(&info); }
  } end{library, info};
  if (!read_header(library, bytes, errors, info)) image_fails(where, std::string("the JPEG is damaged: ") + errors.message);
  check_image_size(where, info.image_width, info.image_height, bytes.size());
  const int orientation = image_jpeg_orientation_of(bytes);
  const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = inks ? JCS_CMYK : image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  info.mem->max_memory_to_use = 512l << 20;
  Plan plan = plan_of(wanted, info.image_height, info.image_width, orientation);
  info.scale_num = 1;
  info.scale_denom = plan.denominator;
  const unsigned d = plan.denominator, height = (info.image_height + d - 1) / d, width = (info.image_width + d - 1) / d;
  const bool cut = wanted != nullptr && orientation == 1;
  plan.rows = height, plan.columns = width;
  if (cut) {
    lay(plan.part.top, plan.part.height, height, plan.first_row, plan.rows);
    lay(plan.part.left, plan.part.width, width, plan.first_column, plan.columns);
  }
  const int64_t stride = inks ? 4 : image.channels;
  // libjpeg begins at a block's edge, at most 64 pixels to the left.
  make_room(image, where, std::min<int64_t>(width, plan.columns + 64), plan.rows, bytes.size(), stride);
  if (!read_rows(library, errors, info, cut, plan, image, static_cast<size_t>(stride)))
    image_fails(where, std::string("the JPEG is damaged: ") + errors.message);
  image.width = plan.columns, image.height = plan.rows;
  if (inks) {
    colours_of_inks(image, info.saw_Adobe_marker != 0);
    pack_pixels(image, 4);
  }
  image.pixels.resize(static_cast<size_t>(image.width * image.height * image.channels));
  turn_upright(image, orientation);
  return {plan.part.top - plan.first_row, plan.part.left - plan.first_column, plan.part.height, plan.part.width};
}

}  // namespace perigee
