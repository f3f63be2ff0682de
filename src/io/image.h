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

// The numbers that the pixels of a PNG are stored as: grey of 8 bits, or places in a palette. One channel, as it lies in the file. Error(data)
// for any other kind of file.
void decode_classes(std::span<const std::byte> bytes, const std::string& where, Picture& image);

// A rectangle of a picture, in its pixels.
struct ImagePart {
  double top = 0, left = 0, height = 0, width = 0;
};

// The wanted part and size of a picture: the part that `choose` names when it is told the size, to be resized to `height` x `width`. With
// `scaled`, a JPEG is decoded at a half, a quarter or an eighth, as long as the part is then still twice as high and wide as that.
using ChoosePart = std::function<ImagePart(int64_t height, int64_t width)>;
struct WantedPart {
  ChoosePart choose;
  int64_t height = 0, width = 0;
  bool scaled = true;
};

// As decode_image, but as little of the picture as that takes. Returns where in `image` the part lies.
ImagePart decode_part(std::span<const std::byte> bytes, const std::string& where, int64_t channels, const WantedPart& wanted,
                      Picture& image);

// The picture, of 1 or 3 channels, as a PNG file. Error(resources) when the library is not installed.
Bytes encode_png(const Picture& image, const std::string& where);

// Planes of `height` x `width`, channel after channel, values times `scale`. Bilinear; when it shrinks, the mean over what a pixel covers, as
// Pillow and torchvision (antialias) do it, not rounded to levels (the shares are, to 1/32768, and each product to 1/128 of a level). Nothing
// outside the part counts.
void resize_image(const Picture& image, int64_t height, int64_t width, float scale, float* planes);
void resize_part(const Picture& image, const ImagePart& part, int64_t height, int64_t width, float scale, float* planes, int64_t to_plane,
                 int64_t to_row);

// How a picture of another shape gets a size: stretched; its middle; as a whole, with bars of the value `fill`.
enum class Fit { squash, crop, pad };
struct FitOptions {
  Fit fit = Fit::squash;
  int64_t height = 0, width = 0;
  float scale = 1, fill = 0;
  bool scaled = true;  // as in WantedPart
};
// Which part of a picture of `from_height` x `from_width` it takes, `chosen` if there is one, and where in the result that stands.
struct FitPlace {
  ImagePart part;
  int64_t top = 0, left = 0, height = 0, width = 0;
};
FitPlace fit_place(int64_t from_height, int64_t from_width, const FitOptions& fit, const ImagePart* chosen = nullptr);
// Decodes and resizes; `choose`: another part than `fit` takes, or null. `image` is memory to be used again.
void fit_image(std::span<const std::byte> bytes, const std::string& where, int64_t channels, const FitOptions& fit,
               const ChoosePart* choose, Picture& image, float* planes);
// The same of planes of floats; `chosen`: another part than `fit` takes, or null.
void fit_planes(const float* from, int64_t channels, int64_t height, int64_t width, const FitOptions& fit, const ImagePart* chosen,
                float* planes);

}  // namespace perigee
