#include "src/io/codec/compress.h"

#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kStep = size_t{1} << 30;  // zlib counts in 32 bits

[[noreturn]] void compress_damaged(const std::string& where, size_t offset, const std::string& what) {
  throw Error(ErrorKind::data, {.where = where, .what = what + " at byte " + std::to_string(offset)});
}

// Output that grows by halves up to one byte beyond the limit, which tells "exactly the limit" from "more".
class Output {
 public:
  Output(uint64_t limit, uint64_t guess) : limit_(limit) {
    bytes_.resize(static_cast<size_t>(std::min(std::max<uint64_t>(guess, 1 << 12), limit + 1)));
  }
  std::byte* free() { return bytes_.data() + used_; }
  size_t room() const { return std::min(bytes_.size() - used_, kStep); }
  void took(size_t count) { used_ += count; }
  // False when the limit has been passed.
  bool grow() {
    if (used_ > limit_) return false;
    if (used_ == bytes_.size()) bytes_.resize(static_cast<size_t>(std::min<uint64_t>(bytes_.size() + bytes_.size() / 2, limit_ + 1)));
    return true;
  }
  Bytes take() {
    bytes_.resize(used_);
    return std::move(bytes_);
  }

 private:
  Bytes bytes_;
  size_t used_ = 0;
  uint64_t limit_;
};

class Inflater {
 public:
  explicit Inflater(int window_bits) {
    if (::inflateInit2(&stream_, window_bits) != Z_OK) throw Error(ErrorKind::resources, {.what = "not enough memory for zlib"});
  }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Decompresses until the stream ends; returns how many bytes of `in` it took.
  size_t run(std::span<const std::byte> in, Output& out, const std::string& where, size_t base, uint64_t limit) {
    size_t taken = 0;
    for (;;) {
      if (!out.grow()) decompressed_too_large(where, limit);
      const size_t given = std::min(in.size() - taken, kStep), room = out.room();
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data() + taken));
      stream_.avail_in = static_cast<uInt>(given);
      stream_.next_out = reinterpret_cast<Bytef*>(out.free());
      stream_.avail_out = static_cast<uInt>(room);
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      taken += given - stream_.avail_in;
      out.took(room - stream_.avail_out);
      if (status == Z_STREAM_END) return taken;
      if (status == Z_MEM_ERROR) throw Error(ErrorKind::resources, {.where = where, .what = "not enough memory for zlib"});
      const bool starved = taken == in.size() && stream_.avail_out > 0;
      if (status == Z_OK && !starved) continue;
      if (status == Z_OK || status == Z_BUF_ERROR) {
        if (!starved) continue;
        compress_damaged(where, base + taken, "the compressed data end too early");
      }
      compress_damaged(where, base + taken, std::string("the compressed data are damaged (") + (stream_.msg ? stream_.msg : "zlib") + ")");
    }
  }

  void reset() { ::inflateReset(&stream_); }

 private:
  z_stream stream_ = {};
};

// The size that the last four bytes claim, believed as far as deflate's ratio (1032) allows.
uint64_t gzip_guess(std::span<const std::byte> bytes) {
  if (bytes.size() < 18) return 0;
  uint64_t claimed = 0;
  for (int i = 0; i < 4; ++i) claimed |= std::to_integer<uint64_t>(bytes[bytes.size() - 4 + i]) << (8 * i);
  return std::min<uint64_t>(claimed + 1, bytes.size() * uint64_t{1032});
}

}  // namespace

Bytes gunzip(std::span<const std::byte> compressed, const std::string& where, uint64_t limit) {
  Inflater inflater(15 + 16);  // +16: gzip header and CRC
  limit = std::min<uint64_t>(limit, PTRDIFF_MAX - 1);
  Output out(limit, gzip_guess(compressed));
  size_t done = 0;
  do {
    if (compression_of(compressed.subspan(done)) != Compression::gzip)
      compress_damaged(where, done, done == 0 ? "not gzip data" : "something that is not gzip follows the compressed data");
    done += inflater.run(compressed.subspan(done), out, where, done, limit);
    inflater.reset();
  } while (done < compressed.size());
  if (!out.grow()) decompressed_too_large(where, limit);
  return out.take();
}

Bytes inflate_raw(std::span<const std::byte> compressed, const std::string& where, uint64_t size) {
  Inflater inflater(-15);
  if (size / 1032 > compressed.size())
    throw Error(ErrorKind::data, {.where = where, .what = "the stated size is beyond what deflate can reach", .got = std::to_string(size)});
  Output out(size, size + 1);
  const size_t taken = inflater.run(compressed, out, where, 0, size);
  Bytes bytes = out.take();
  if (bytes.size() != size || taken != compressed.size())
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the decompressed size is not the stated one",
                                  .got = std::to_string(bytes.size()),
                                  .expected = std::to_string(size)});
  return bytes;
}

Bytes inflate_zlib(std::span<const std::byte> compressed, const std::string& where, uint64_t limit) {
  Inflater inflater(15);
  Output out(limit, std::min<uint64_t>(limit, compressed.size() * uint64_t{4}));
  inflater.run(compressed, out, where, 0, limit);
  return out.take();
}

Bytes unxz(std::span<const std::byte> compressed, const std::string& where, uint64_t limit) {
  limit = std::min<uint64_t>(limit, PTRDIFF_MAX - 1);
  lzma_stream stream = LZMA_STREAM_INIT;
  struct End {
    lzma_stream* stream;
    ~End() { ::lzma_end(stream); }
  } end{&stream};
  if (::lzma_stream_decoder(&stream, uint64_t{256} << 20, LZMA_CONCATENATED) != LZMA_OK)
    throw Error(ErrorKind::resources, {.where = where, .what = "not enough memory for liblzma"});
  Output out(limit, compressed.size() * uint64_t{4});
  stream.next_in = reinterpret_cast<const uint8_t*>(compressed.data());
  stream.avail_in = compressed.size();
  for (;;) {
    if (!out.grow()) decompressed_too_large(where, limit);
    const size_t room = out.room();
    stream.next_out = reinterpret_cast<uint8_t*>(out.free());
    stream.avail_out = room;
    const lzma_ret status = ::lzma_code(&stream, LZMA_FINISH);
    out.took(room - stream.avail_out);
    if (status == LZMA_STREAM_END) break;
    if (status == LZMA_OK) continue;
    const size_t offset = compressed.size() - stream.avail_in;
    if (status == LZMA_MEM_ERROR || status == LZMA_MEMLIMIT_ERROR)
      throw Error(ErrorKind::resources, {.where = where,
                                         .what = "decompressing needs more memory than allowed (256 MiB)",
                                         .hint = "unpack it first, or pack it again with a smaller dictionary: xz -6"});
    if (status == LZMA_BUF_ERROR && stream.avail_out == 0) continue;
    if (status == LZMA_BUF_ERROR) compress_damaged(where, offset, "the compressed data end too early");
    compress_damaged(where, offset, status == LZMA_FORMAT_ERROR ? "not xz data" : "the compressed data are damaged");
  }
  if (!out.grow()) decompressed_too_large(where, limit);
  return out.take();
}

Bytes gzip(std::span<const std::byte> bytes) {
  z_stream stream = {};
  if (::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error(ErrorKind::resources, {.what = "not enough memory for zlib"});
  const uLong room = ::deflateBound(&stream, bytes.size());
  if (bytes.size() > std::numeric_limits<uInt>::max() || room > std::numeric_limits<uInt>::max()) {
    ::deflateEnd(&stream);
    throw Error(ErrorKind::resources, {.what = "more than 4 GiB cannot be compressed at once",
                                       .got = std::to_string(bytes.size()) + " bytes",
                                       .hint = "write it without .gz, and compress it with another program"});
  }
  Bytes out(room);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

void decompressed_too_large(const std::string& where, uint64_t limit) {
  throw Error(ErrorKind::resources, {.where = where,
                                     .what = "the decompressed data are larger than allowed",
                                     .expected = "at most " + std::to_string(limit) + " bytes",
                                     .hint = "unpack the file first if it is meant to be so large"});
}

Compression compression_of(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  if (text.starts_with("\x1f\x8b")) return Compression::gzip;
  if (text.starts_with(std::string_view("\xfd"
                                        "7zXZ\0",
                                        6)))
    return Compression::xz;
  if (text.starts_with("\x28\xb5\x2f\xfd")) return Compression::zstd;
  return Compression::none;
}

}  // namespace perigee
