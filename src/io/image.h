// JPEG and PNG files as bytes of pixels. libjpeg and libpng are loaded when the first image of their kind is decoded.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/io/file.h"

namespace perigee {

struct Picture {
  int64_t width = 0, height = 0, channels = 0;
  Bytes pixels;  // row-major, channels together; the memory is used again by the next decoding into the same Picture
};

enum class ImageKind { none, jpeg, png };
ImageKind image_kind(std::span<const std::byte> bytes);  // by their first bytes

// `channels`: 1 (grey) or 3 (RGB; transparency is put on black). Error(data) with `where` for what is damaged, cut short, neither JPEG nor PNG, or
// has more than 2^26 pixels. Error(resources) when the library is not installed.
void decode_image(std::span<const std::byte> bytes, const std::string& where, int64_t channels, Picture& image);

// The picture, of 1 or 3 channels, as a PNG file. Error(resources) when the library is not installed.
Bytes encode_png(const Picture& image, const std::string& where);

// Planes of `height` x `width`, channel after channel, values times `scale`. Bilinear; when it shrinks, the mean over what a pixel covers.
void resize_image(const Picture& image, int64_t height, int64_t width, float scale, float* planes);

}  // namespace perigee
