// Pictures in files (JPEG, PNG, BMP, GIF, WebP, TIFF) as bytes of pixels. A library is loaded when the first picture of its kind is decoded.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "src/io/file.h"

namespace perigee {

struct Picture {
  int64_t width = 0, height = 0, channels = 0;
  Bytes pixels;  // row-major, channels together; the memory is used again by the next decoding into the same Picture
};

enum class ImageKind { none, jpeg, png, bmp, gif, webp, tiff };
ImageKind image_kind(std::span<const std::byte> bytes);                         // by their first bytes
bool is_image_suffix(std::string_view suffix);                                  // "jpg", in any case
inline constexpr const char* kImageSuffixes = "jpg, png, bmp, gif, webp, tif";  // for messages

// `channels`: 1 (grey) or 3 (RGB; transparency is put on black), 8 bits each, turned upright where EXIF says how the camera was held. 16 bits are
// rounded to 8; of an animation the first frame. Error(data) with `where` for what is damaged, cut short, no picture, or has more than 2^26
// pixels, or 2^24 and more than 16 a byte of the file. Error(resources) when the library is not installed.
void decode_image(std::span<const std::byte> bytes, const std::string& where, int64_t channels, Picture& image);

// A rectangle of a picture, in its pixels.
struct ImagePart {
  double top = 0, left = 0, height = 0, width = 0;
};

// The pixels that are wanted of a picture: the part that `choose` names when it is told the size, to be resized to `height` x `width`. With `scaled`, a JPEG
// at least twice (four, eight times) as large as twice that is decoded at a half (a quarter, an eighth): its means over squares of pixels.
struct WantedPart {
  std::function<ImagePart(int64_t height, int64_t width)> choose;
  int64_t height = 0, width = 0;
  bool scaled = true;
};

// As decode_image, but as little of the picture as that takes. Returns where in `image` the part lies.
ImagePart decode_part(std::span<const std::byte> bytes, const std::string& where, int64_t channels, const WantedPart& wanted,
                      Picture& image);

// The picture, of 1 or 3 channels, as a PNG file. Error(resources) when the library is not installed.
Bytes encode_png(const Picture& image, const std::string& where);

// Planes of `height` x `width`, channel after channel, values times `scale`. Bilinear; when it shrinks, the mean over what a pixel covers.
void resize_image(const Picture& image, int64_t height, int64_t width, float scale, float* planes);

}  // namespace perigee
