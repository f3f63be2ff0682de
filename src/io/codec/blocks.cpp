#include "src/io/codec/blocks.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "src/core/error.h"
#include "src/io/module.h"

namespace perigee {
namespace {

[[noreturn]] void blocks_damaged(const std::string& where, const char* codec, size_t at) {
  throw Error(ErrorKind::data, {.where = where, .what = std::string("the ") + codec + " data are damaged at byte " + std::to_string(at)});
}

unsigned byte_at(ConstBytes in, size_t at) { return std::to_integer<unsigned>(in[at]); }

uint32_t blocks_little(ConstBytes in, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= byte_at(in, at + i) << (8 * i);
  return value;
}

uint32_t big(ConstBytes in, size_t at) {
  return byte_at(in, at) << 24 | byte_at(in, at + 1) << 16 | byte_at(in, at + 2) << 8 | byte_at(in, at + 3);
}

// `size` bytes that lie `distance` before `to`, which may overlap them. Both ends are checked by the caller.
void copy_back(std::byte* to, size_t distance, size_t size) {
  const std::byte* from = to - distance;
  if (distance >= size) {
    std::memcpy(to, from, size);
    return;
  }
  for (size_t i = 0; i < size; ++i) to[i] = from[i];
}

}  // namespace

// --- Snappy: format_description.txt of google/snappy ---------------------------------------------------------------------------

void snappy_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where) {
  constexpr const char* kName = "Snappy";
  size_t at = 0, done = 0;
  uint64_t size = 0;
  for (unsigned shift = 0;; shift += 7, ++at) {
    if (at >= in.size() || shift > 28) blocks_damaged(where, kName, at);
    size |= static_cast<uint64_t>(byte_at(in, at) & 127) << shift;
    if (byte_at(in, at) < 128) break;
  }
  ++at;
  if (size != out.size()) blocks_damaged(where, kName, 0);
  while (at < in.size()) {
    const unsigned tag = byte_at(in, at++), kind = tag & 3;
    if (kind == 0) {
      size_t count = tag >> 2;
      if (count >= 60) {
        const size_t bytes = count - 59;
        if (in.size() - at < bytes) blocks_damaged(where, kName, at);
        count = blocks_little(in, at, bytes);
        at += bytes;
      }
      ++count;
      if (in.size() - at < count || out.size() - done < count) blocks_damaged(where, kName, at);
      std::memcpy(out.data() + done, in.data() + at, count);
      at += count, done += count;
      continue;
    }
    const size_t bytes = kind == 1 ? 1 : kind == 2 ? 2 : 4;
    if (in.size() - at < bytes) blocks_damaged(where, kName, at);
    const size_t count = kind == 1 ? (tag >> 2 & 7) + 4 : (tag >> 2) + 1;
    const size_t distance = kind == 1 ? (tag >> 5) << 8 | byte_at(in, at) : blocks_little(in, at, bytes);
    at += bytes;
    if (distance == 0 || distance > done || out.size() - done < count) blocks_damaged(where, kName, at);
    copy_back(out.data() + done, distance, count);
    done += count;
  }
  if (done != out.size()) blocks_damaged(where, kName, at);
}

// --- LZ4: lz4_Block_format.md, lz4_Frame_format.md of lz4/lz4 ------------------------------------------------------------------

namespace {

constexpr const char* kLz4 = "LZ4";

// Continues `out` at `done`, so that later blocks of a frame may refer to earlier ones. The new `done`.
size_t lz4_block(ConstBytes in, std::span<std::byte> out, size_t done, const std::string& where) {
  size_t at = 0;
  const auto length = [&](size_t base) {
    size_t count = base;
    if (base != 15) return count;
    for (unsigned more = 255; more == 255; count += more) {
      if (at >= in.size()) blocks_damaged(where, kLz4, at);
      more = byte_at(in, at++);
    }
    return count;
  };
  while (at < in.size()) {
    const unsigned token = byte_at(in, at++);
    const size_t literals = length(token >> 4);
    if (in.size() - at < literals || out.size() - done < literals) blocks_damaged(where, kLz4, at);
    if (literals > 0) std::memcpy(out.data() + done, in.data() + at, literals);
    at += literals, done += literals;
    if (at == in.size()) return done;  // the last sequence has literals alone
    if (in.size() - at < 2) blocks_damaged(where, kLz4, at);
    const size_t distance = blocks_little(in, at, 2);
    at += 2;
    const size_t count = length(token & 15) + 4;
    if (distance == 0 || distance > done || out.size() - done < count) blocks_damaged(where, kLz4, at);
    copy_back(out.data() + done, distance, count);
    done += count;
  }
  return done;
}

}  // namespace

void lz4_block_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where) {
  if (in.empty() && out.empty()) return;
  if (lz4_block(in, out, 0, where) != out.size()) blocks_damaged(where, kLz4, in.size());
}

void lz4_frame_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where) {
  if (in.size() < 7 || blocks_little(in, 0, 4) != 0x184D2204) blocks_damaged(where, kLz4, 0);
  const unsigned flags = byte_at(in, 4);
  size_t at = 6 + ((flags & 8) != 0 ? 8 : 0) + ((flags & 1) != 0 ? 4 : 0) + 1, done = 0;
  if (flags >> 6 != 1 || at > in.size()) blocks_damaged(where, kLz4, 4);
  for (;;) {
    if (in.size() - at < 4) blocks_damaged(where, kLz4, at);
    const uint32_t head = blocks_little(in, at, 4), size = head & 0x7fffffffu;
    at += 4;
    if (head == 0) break;
    if (in.size() - at < size) blocks_damaged(where, kLz4, at);
    if ((head & 0x80000000u) == 0) {
      done = lz4_block(in.subspan(at, size), out, done, where);
    } else {
      if (out.size() - done < size) blocks_damaged(where, kLz4, at);
      std::memcpy(out.data() + done, in.data() + at, size);
      done += size;
    }
    at += size;
    if ((flags & 16) != 0) at += 4;  // of the block, a checksum
    if (at > in.size()) blocks_damaged(where, kLz4, in.size());
  }
  if (done != out.size()) blocks_damaged(where, kLz4, at);
}

bool lz4_hadoop_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where) {
  size_t done = 0;
  for (size_t at = 0; at < in.size();) {
    if (in.size() - at < 8) return false;
    const size_t plain = big(in, at), packed = big(in, at + 4);
    at += 8;
    if (plain > out.size() - done || packed > in.size() - at) return false;
    try {
      lz4_block_decompress(in.subspan(at, packed), out.subspan(done, plain), where);
    } catch (const Error&) {
      return false;
    }
    at += packed, done += plain;
  }
  return done == out.size();
}

// --- gzip, Brotli --------------------------------------------------------------------------------------------------------------

void gzip_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where) {
  z_stream stream = {};
  if (::inflateInit2(&stream, 15 + 32) != Z_OK) throw Error(ErrorKind::resources, {.where = where, .what = "not enough memory for zlib"});
  size_t at = 0, done = 0;
  bool ended = false;
  while (at < in.size()) {
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data() + at));
    stream.avail_in = static_cast<uInt>(std::min<size_t>(in.size() - at, 1 << 30));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = static_cast<uInt>(std::min<size_t>(out.size() - done, 1 << 30));
    const uInt given = stream.avail_in, room = stream.avail_out;
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    at += given - stream.avail_in, done += room - stream.avail_out;
    ended = status == Z_STREAM_END;
    if (ended && at < in.size()) ::inflateReset(&stream);
    else if (ended || (status != Z_OK) || (stream.avail_in == given && stream.avail_out == room)) break;
  }
  ::inflateEnd(&stream);
  if (!ended || at != in.size() || done != out.size()) blocks_damaged(where, "gzip", at);
}

void brotli_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where) {
  struct Brotli {
    Module module{{"libbrotlidec.so.1", "libbrotlidec.1.dylib"}, "Brotli compression", "libbrotli1"};
    int (*decompress)(size_t, const uint8_t*, size_t*, uint8_t*) = nullptr;
    Brotli() { module.symbol("BrotliDecoderDecompress", decompress); }
  };
  static const Brotli brotli;
  size_t size = out.size();
  const int status =
      brotli.decompress(in.size(), reinterpret_cast<const uint8_t*>(in.data()), &size, reinterpret_cast<uint8_t*>(out.data()));
  if (status != 1 || size != out.size()) blocks_damaged(where, "Brotli", 0);
}

}  // namespace perigee
