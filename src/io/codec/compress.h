// Decompression of whole buffers, bounded: what comes out never exceeds `limit` bytes. Error(data) with `where` and the offset in
// the compressed bytes when they are damaged, cut short or followed by something else; Error(resources) when the limit is passed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "src/io/file.h"

namespace perigee {

Bytes gunzip(std::span<const std::byte> compressed, const std::string& where, uint64_t limit);        // one member or several
Bytes inflate_raw(std::span<const std::byte> compressed, const std::string& where, uint64_t size);    // ZIP's: exactly `size` bytes
Bytes inflate_zlib(std::span<const std::byte> compressed, const std::string& where, uint64_t limit);  // with zlib's header
Bytes unxz(std::span<const std::byte> compressed, const std::string& where, uint64_t limit);
Bytes gzip(std::span<const std::byte> bytes);
[[noreturn]] void decompressed_too_large(const std::string& where, uint64_t limit);

enum class Compression { none, gzip, xz, zstd };
Compression compression_of(std::span<const std::byte> bytes);  // by their first bytes

// The content of a file, decompressed if it is compressed, to at most 64 MiB and 256 times its size. Decompressed content is kept in the user's
// cache folder, bound to the file's path, size and time, and mapped from there the next time.
class FileContent {
 public:
  // `check` sees the file's own bytes before they are decompressed, unless the cache answers; it throws to refuse them.
  static FileContent open(const std::string& path, uint64_t limit,
                          void (*check)(std::span<const std::byte> raw, const std::string& path) = nullptr);

  // The same for what is read piece by piece: what is not compressed stays in its file, which must not become shorter meanwhile, and what is
  // goes to the cache at once, if there is one.
  static FileContent map(const std::string& path, uint64_t limit);

  std::span<const std::byte> bytes() const { return bytes_; }
  bool from_cache() const { return from_cache_; }
  // Whole pages of `piece`, a part of bytes(), leave this process's memory until they are read again, where a file is mapped.
  void forget(std::span<const std::byte> piece) const;

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
  bool from_cache_ = false, mapped_ = false;
};

}  // namespace perigee
