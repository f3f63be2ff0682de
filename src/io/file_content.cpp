#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "src/core/error.h"
#include "src/io/codec/compress.h"
#include "src/io/codec/zstd.h"
#include "src/io/confined.h"
#include "src/io/digest.h"
#include "src/io/store/cached_file.h"
#include "src/io/store/url.h"

namespace perigee {
namespace {

// Where the decompressed content of `path`, as it is now, would be kept; empty when there is no place.
std::string cache_path(const std::string& path) {
  const std::string folder = user_cache_folder(), identity = file_identity(path);
  if (folder.empty() || identity.empty()) return "";
  return folder + "/decompressed/" + xxh3_hex(as_bytes(identity));
}

// A small file does not fill the memory: what people compress becomes 2 to 100 times as large.
Bytes unpacked(Compression compression, std::span<const std::byte> bytes, const std::string& path, uint64_t limit) {
  const uint64_t most = std::min(limit, (uint64_t{64} << 20) + uint64_t{256} * bytes.size());
  if (compression == Compression::gzip) return gunzip(bytes, path, most);
  return compression == Compression::xz ? unxz(bytes, path, most) : unzstd(bytes, path, most);
}

}  // namespace

FileContent FileContent::open(const std::string& path, uint64_t limit, void (*check)(std::span<const std::byte>, const std::string&)) {
  FileContent content;
  const std::string cached = cache_path(path);
  if (auto file = map_cached(cached, limit, &content.bytes_)) {
    content.owner_ = std::move(file);
    content.from_cache_ = content.mapped_ = true;
    return content;
  }
  auto bytes = std::make_shared<Bytes>(read_file(path, limit));
  if (check != nullptr) check(*bytes, path);
  const Compression compression = compression_of(*bytes);
  if (compression != Compression::none) {
    bytes = std::make_shared<Bytes>(unpacked(compression, *bytes, path, limit));
    keep_cached(cached, *bytes);
  }
  content.bytes_ = *bytes;
  content.owner_ = std::move(bytes);
  return content;
}

FileContent FileContent::map(const std::string& path, uint64_t limit) {
  auto file = std::make_shared<MappedFile>(path);
  if (compression_of(file->bytes()) != Compression::none || file->bytes().size() > limit) {
    FileContent content = open(path, limit);
    if (content.mapped_) return content;
    std::span<const std::byte> bytes;
    if (auto kept = map_cached(cache_path(path), limit, &bytes)) {
      content.owner_ = std::move(kept);
      content.bytes_ = bytes;
      content.mapped_ = true;
    }
    return content;
  }
  FileContent content;
  content.bytes_ = file->bytes();
  content.mapped_ = !is_store_path(local_path(path));  // of a stored file some may be in memory alone
  content.owner_ = std::move(file);
  return content;
}

void FileContent::forget(std::span<const std::byte> piece) const {
  if (!mapped_) return;  // of memory that no file stands behind the content would be lost
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<uintptr_t>(piece.data());
  const uintptr_t begin = (from + page - 1) / page * page, end = (from + piece.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace perigee
