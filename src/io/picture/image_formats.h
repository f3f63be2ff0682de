// Decoders of one format each, for image.cpp. All write pixels of `image.channels` channels, 1 or 3, and throw Error(data) for what is damaged.
#pragma once

#include "src/io/image.h"

namespace perigee {

[[noreturn]] void image_fails(const std::string& where, const std::string& what);
// Before anything of that size is allocated. `bytes`: of the file.
void check_image_size(const std::string& where, int64_t width, int64_t height, size_t bytes);
// Sets the size, after it was checked, and makes room for `bytes_per_pixel`.
void make_room(Picture& image, const std::string& where, int64_t width, int64_t height, size_t bytes, int64_t bytes_per_pixel);

// The luminance of ITU-R BT.601 as Pillow rounds it.
inline std::byte grey_of(int r, int g, int b) { return std::byte((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16); }
// Makes the first image.channels bytes of each pixel of three or four, in place.
void pack_pixels(Picture& image, int64_t bytes_per_pixel);

// How a camera was held: 1 (upright) to 8, as EXIF counts; 1 when the block of EXIF says nothing or is damaged.
int exif_orientation(std::span<const std::byte> exif);
void turn_upright(Picture& image, int orientation);

ImagePart decode_jpeg(std::span<const std::byte> bytes, const std::string& where, const WantedPart* wanted, Picture& image);
void decode_png(std::span<const std::byte> bytes, const std::string& where, Picture& image);
void decode_bmp(std::span<const std::byte> bytes, const std::string& where, Picture& image);
void decode_gif(std::span<const std::byte> bytes, const std::string& where, Picture& image);
void decode_webp(std::span<const std::byte> bytes, const std::string& where, Picture& image);
void decode_tiff(std::span<const std::byte> bytes, const std::string& where, Picture& image);

}  // namespace perigee
