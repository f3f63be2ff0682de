#include <cstring>

#include "src/core/error.h"
#include "src/io/compress.h"
#include "src/io/confined.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

// A cached file is the content and this behind it: at the end, so that the content is aligned like the mapping.
struct Footer {
  char magic[16];
  char digest[32];
  uint64_t size;
};
constexpr char kMagic[16] = "perigee-cache-1";

// Where the decompressed content of `path`, as it is now, would be kept; empty when there is no place.
std::string cache_path(const std::string& path) {
  const std::string folder = user_cache_folder(), identity = file_identity(path);
  if (folder.empty() || identity.empty()) return "";
  return folder + "/decompressed/" + xxh3_hex(as_bytes(identity));
}

std::shared_ptr<MappedFile> open_cached(const std::string& cached, uint64_t limit) {
  if (cached.empty() || !file_exists(cached)) return nullptr;
  try {
    auto file = std::make_shared<MappedFile>(cached);
    const auto bytes = file->bytes();
    Footer footer;
    if (bytes.size() < sizeof footer) return nullptr;
    std::memcpy(&footer, bytes.data() + bytes.size() - sizeof footer, sizeof footer);
    const auto content = bytes.first(bytes.size() - sizeof footer);
    if (std::memcmp(footer.magic, kMagic, sizeof kMagic) != 0 || footer.size != content.size() || content.size() > limit) return nullptr;
    if (xxh3_hex(content) != std::string_view(footer.digest, sizeof footer.digest)) return nullptr;
    return file;
  } catch (const Error&) {
    return nullptr;  // the cache is a convenience: a fault in it must not stop the caller
  }
}

void keep(const std::string& cached, std::span<const std::byte> content) {
  if (cached.empty()) return;
  Footer footer = {};
  std::memcpy(footer.magic, kMagic, sizeof kMagic);
  std::memcpy(footer.digest, xxh3_hex(content).data(), sizeof footer.digest);
  footer.size = content.size();
  const std::span<const std::byte> pieces[] = {content, std::as_bytes(std::span(&footer, 1))};
  try {
    write_file(cached, pieces, false);
  } catch (const Error&) {
    // A full disk or a read-only home only costs time the next time.
  }
}

}  // namespace

FileContent FileContent::open(const std::string& path, uint64_t limit, void (*check)(std::span<const std::byte>, const std::string&)) {
  FileContent content;
  const std::string cached = cache_path(path);
  if (auto file = open_cached(cached, limit)) {
    content.bytes_ = file->bytes().first(file->bytes().size() - sizeof(Footer));
    content.owner_ = std::move(file);
    content.from_cache_ = true;
    return content;
  }
  auto bytes = std::make_shared<Bytes>(read_file(path, limit));
  if (check != nullptr) check(*bytes, path);
  const Compression compression = compression_of(*bytes);
  if (compression != Compression::none) {
    bytes = std::make_shared<Bytes>(compression == Compression::gzip ? gunzip(*bytes, path, limit) : unxz(*bytes, path, limit));
    keep(cached, *bytes);
  }
  content.bytes_ = *bytes;
  content.owner_ = std::move(bytes);
  return content;
}

}  // namespace perigee
