// BMP, and the first frame of a GIF.
#include <array>
#include <bit>

#include "src/core/error.h"
#include "src/io/picture/image_formats.h"

namespace perigee {
namespace {

// Little-endian numbers at offsets that are checked.
struct ImageSimpleReader {
  std::span<const std::byte> bytes;
  const std::string& where;
  const char* kind;

  [[noreturn]] void damaged(const char* what) const { image_fails(where, std::string("the ") + kind + " is damaged: " + what); }
  uint32_t number(size_t at, size_t count) const {
    if (at > bytes.size() || count > bytes.size() - at) damaged("it is cut short");
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) value |= std::to_integer<uint32_t>(bytes[at + i]) << (8 * i);
    return value;
  }
};

struct Colour {
  uint8_t r = 0, g = 0, b = 0;
};

void put_image_simple(Picture& image, int64_t at, Colour colour) {
  std::byte* pixel = image.pixels.data() + at * image.channels;
  if (image.channels == 1) {
    *pixel = grey_of(colour.r, colour.g, colour.b);
    return;
  }
  pixel[0] = std::byte{colour.r}, pixel[1] = std::byte{colour.g}, pixel[2] = std::byte{colour.b};
}

// The bits of a mask, spread over 0 to 255.
uint8_t masked(uint32_t value, uint32_t mask) {
  if (mask == 0) return 0;
  const uint32_t shift = static_cast<uint32_t>(std::countr_zero(mask)), most = mask >> shift;
  return static_cast<uint8_t>((uint64_t{(value & mask) >> shift} * 255 + most / 2) / most);
}

struct BmpHeader {
  int64_t width, height;
  uint32_t bits, size, pixels;
  bool old, down, runs;
  uint32_t masks[3];
};

BmpHeader bmp_header(const ImageSimpleReader& file) {
  BmpHeader header = {};
  header.pixels = file.number(10, 4);
  header.size = file.number(14, 4);
  header.old = header.size == 12;
  if (!header.old && (header.size < 40 || header.size > 124)) file.damaged("its header has an unknown size");
  header.width = header.old ? static_cast<int32_t>(file.number(18, 2)) : static_cast<int32_t>(file.number(18, 4));
  header.height = header.old ? static_cast<int32_t>(file.number(20, 2)) : static_cast<int32_t>(file.number(22, 4));
  header.down = header.height < 0;
  if (header.down) header.height = -header.height;
  header.bits = file.number(header.old ? 24 : 28, 2);
  const uint32_t coding = header.old ? 0 : file.number(30, 4);
  header.runs = (coding == 1 && header.bits == 8) || (coding == 2 && header.bits == 4);
  if (header.runs && header.down) file.damaged("it has runs from above, and runs lead from below");
  const bool given = coding == 3 || coding == 6;
  if (!std::has_single_bit(header.bits) && header.bits != 24) file.damaged("its pixels have an unknown size");
  if (header.bits > 32 || header.bits == 2 || (coding != 0 && !header.runs && !(given && header.bits >= 16)))
    file.damaged("its pixels are of an unknown kind");
  for (size_t c = 0; c < 3; ++c)
    header.masks[c] = given ? file.number(54 + 4 * c, 4) : header.bits == 16 ? 0x7c00u >> (5 * c) : 0xff0000u >> (8 * c);
  return header;
}

// Runs of one colour, or of two in turns, and single pixels: `pixel(x, y, colour)`, rows from below. No pixel: the first colour. A full picture
// needs no mark of its end.
template <class Pixel>
void unpack_runs(const ImageSimpleReader& file, const BmpHeader& header, Pixel&& pixel) {
  size_t at = header.pixels;
  int64_t x = 0, y = 0;
  const bool half = header.bits == 4;
  const auto put = [&](uint32_t value, int64_t i) {
    if (x >= header.width || y >= header.height) file.damaged("a run leads out of it");
    pixel(x++, y, half ? value >> (i % 2 == 0 ? 4 : 0) & 15 : value);
  };
  const auto full = [&] { return y >= header.height || (y == header.height - 1 && x >= header.width); };
  for (;;) {
    if (full() && at + 2 > file.bytes.size()) return;
    const uint32_t count = file.number(at, 1), value = file.number(at + 1, 1);
    at += 2;
    if (count > 0) {
      for (int64_t i = 0; i < count; ++i) put(value, i);
    } else if (value == 0) {
      x = 0, ++y;
    } else if (value == 1) {
      return;
    } else if (value == 2) {
      x += file.number(at, 1), y += file.number(at + 1, 1);
      at += 2;
    } else {
      for (int64_t i = 0; i < value; ++i) put(file.number(at + static_cast<size_t>(half ? i / 2 : i), 1), i);
      at += ((half ? (value + 1) / 2 : value) + 1) / 2 * 2;
    }
  }
}

struct GifFrame {
  int64_t left = 0, top = 0, width = 0, height = 0;
  bool interlaced = false;
  int transparent = -1;
  std::array<Colour, 256> colours = {};
};

void read_colours(const ImageSimpleReader& file, size_t at, size_t count, std::array<Colour, 256>& colours) {
  file.number(at + 3 * count - 1, 1);
  for (size_t i = 0; i < count; ++i) {
    const auto part = [&](size_t c) { return std::to_integer<uint8_t>(file.bytes[at + 3 * i + c]); };
    colours[i] = {part(0), part(1), part(2)};
  }
}

// Lempel-Ziv-Welch in blocks of at most 255 bytes: `pixel(i, colour)` for each of `count` pixels.
template <class Pixel>
void unpack_lzw(const ImageSimpleReader& file, size_t at, int64_t count, Pixel&& pixel) {
  const uint32_t least = file.number(at++, 1);
  if (least < 1 || least > 8) file.damaged("its codes have an unknown size");
  std::array<uint16_t, 4096> before = {}, length = {};
  std::array<uint8_t, 4096> last = {}, first = {};
  std::array<uint8_t, 4096> text;
  const uint32_t clear = 1u << least, end = clear + 1;
  for (uint32_t i = 0; i < clear; ++i) last[i] = first[i] = static_cast<uint8_t>(i), length[i] = 1;
  uint32_t next = end + 1, bits = least + 1, held = 0, have = 0, block = 0, previous = end;
  for (int64_t done = 0; done < count;) {
    while (have < bits) {
      if (block == 0) block = file.number(at++, 1);
      if (block == 0) file.damaged("pixels are missing");
      held |= file.number(at++, 1) << have;
      have += 8, --block;
    }
    const uint32_t code = held & ((1u << bits) - 1);
    held >>= bits, have -= bits;
    if (code == end) file.damaged("pixels are missing");
    if (code == clear) {
      next = end + 1, bits = least + 1, previous = end;
      continue;
    }
    if (code > next || (code == next && previous == end) || (code >= clear && previous == end)) file.damaged("a code has no meaning");
    if (previous != end && next < 4096) {
      before[next] = static_cast<uint16_t>(previous);
      length[next] = static_cast<uint16_t>(length[previous] + 1);
      first[next] = first[previous];
      last[next] = first[code == next ? previous : code];
      if (++next == 1u << bits && bits < 12) ++bits;
    } else if (code >= next) {
      file.damaged("a code has no meaning");
    }
    const uint32_t n = length[code];
    for (uint32_t i = n, c = code; i-- > 0; c = before[c]) text[i] = last[c];
    for (uint32_t i = 0; i < n && done < count; ++i) pixel(done++, text[i]);
    previous = code;
  }
}

// The row of the picture that comes as number `i`: every eighth first, then those between.
int64_t interlaced_row(int64_t i, int64_t height) {
  constexpr int kStart[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
  for (int pass = 0; pass < 4; ++pass) {
    const int64_t rows = (height - kStart[pass] + kStep[pass] - 1) / kStep[pass];
    if (i < rows) return kStart[pass] + i * kStep[pass];
    i -= std::max<int64_t>(rows, 0);
  }
  return 0;
}

}  // namespace

void decode_bmp(std::span<const std::byte> bytes, const std::string& where, Picture& image) {
  const ImageSimpleReader file{bytes, where, "BMP"};
  const BmpHeader header = bmp_header(file);
  make_room(image, where, header.width, header.height, bytes.size(), image.channels);
  std::array<Colour, 256> colours = {};
  if (header.bits <= 8) {
    const size_t each = header.old ? 3 : 4, start = 14 + header.size;
    uint32_t count = header.old ? 0 : file.number(46, 4);
    if (count == 0 || count > 1u << header.bits) count = 1u << header.bits;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t bgr = file.number(start + each * i, 3);
      colours[i] = {static_cast<uint8_t>(bgr >> 16), static_cast<uint8_t>(bgr >> 8), static_cast<uint8_t>(bgr)};
    }
  }
  if (header.runs) {
    for (int64_t i = 0; i < header.width * header.height; ++i) put_image_simple(image, i, colours[0]);
    return unpack_runs(file, header, [&](int64_t x, int64_t y, uint32_t colour) {
      put_image_simple(image, (header.height - 1 - y) * header.width + x, colours[colour]);
    });
  }
  const size_t row = static_cast<size_t>((header.width * header.bits + 31) / 32 * 4);
  for (int64_t y = 0; y < header.height; ++y) {
    const size_t at = header.pixels + row * static_cast<size_t>(header.down ? y : header.height - 1 - y);
    file.number(at + row - 1, 1);
    for (int64_t x = 0; x < header.width; ++x) {
      const size_t bit = static_cast<size_t>(x) * header.bits;
      const uint32_t value = file.number(at + bit / 8, std::max(1u, header.bits / 8));
      if (header.bits <= 8)
        put_image_simple(image, y * header.width + x, colours[value >> (8 - header.bits - bit % 8) & ((1u << header.bits) - 1)]);
      else
        put_image_simple(image, y * header.width + x,
                         {masked(value, header.masks[0]), masked(value, header.masks[1]), masked(value, header.masks[2])});
    }
  }
}

void decode_gif(std::span<const std::byte> bytes, const std::string& where, Picture& image) {
  const ImageSimpleReader file{bytes, where, "GIF"};
  const int64_t width = file.number(6, 2), height = file.number(8, 2);
  const uint32_t flags = file.number(10, 1);
  size_t at = 13;
  GifFrame frame;
  const auto colours = [&](uint32_t from) {
    if ((from & 0x80) == 0) return;
    const size_t count = size_t{2} << (from & 7);
    read_colours(file, at, count, frame.colours);
    at += 3 * count;
  };
  colours(flags);
  for (uint32_t mark; (mark = file.number(at++, 1)) != 0x2c;) {
    if (mark != 0x21) file.damaged("it has no picture");
    if (file.number(at++, 1) == 0xf9 && (file.number(at + 1, 1) & 1) != 0) frame.transparent = static_cast<int>(file.number(at + 4, 1));
    for (uint32_t block; (block = file.number(at++, 1)) != 0;) at += block;
  }
  frame.left = file.number(at, 2), frame.top = file.number(at + 2, 2);
  frame.width = file.number(at + 4, 2), frame.height = file.number(at + 6, 2);
  const uint32_t kind = file.number(at + 8, 1);
  at += 9;
  frame.interlaced = (kind & 0x40) != 0;
  colours(kind);
  check_image_size(where, frame.width, frame.height, bytes.size());
  make_room(image, where, width, height, bytes.size(), image.channels);
  std::fill(image.pixels.begin(), image.pixels.end(), std::byte{0});
  unpack_lzw(file, at, frame.width * frame.height, [&](int64_t i, uint8_t colour) {
    const int64_t row = i / frame.width, y = frame.top + (frame.interlaced ? interlaced_row(row, frame.height) : row);
    const int64_t x = frame.left + i % frame.width;
    if (x < width && y < height && colour != frame.transparent) put_image_simple(image, y * width + x, frame.colours[colour]);
  });
}

}  // namespace perigee
