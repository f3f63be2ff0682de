#include "src/io/store/cached_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "src/core/error.h"
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
constexpr size_t kPiece = size_t{256} << 10;

bool fits(const Footer& footer, uint64_t size, std::string_view digest) {
  return std::memcmp(footer.magic, kMagic, sizeof kMagic) == 0 && footer.size == size &&
         digest == std::string_view(footer.digest, sizeof footer.digest);
}

bool read_exactly(int fd, void* to, size_t size, uint64_t at) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = ::pread(fd, static_cast<char*>(to) + done, size - done, static_cast<off_t>(at + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

void keep_cached(const std::string& path, std::span<const std::byte> content) {
  if (path.empty()) return;
  Footer footer = {};
  std::memcpy(footer.magic, kMagic, sizeof kMagic);
  std::memcpy(footer.digest, xxh3_hex(content).data(), sizeof footer.digest);
  footer.size = content.size();
  const std::span<const std::byte> pieces[] = {content, std::as_bytes(std::span(&footer, 1))};
  try {
    write_file(path, pieces, false);
  } catch (const Error&) {
    // The cache is a convenience.
  }
}

std::shared_ptr<MappedFile> map_cached(const std::string& path, uint64_t limit, std::span<const std::byte>* content) {
  if (path.empty() || !file_exists(path)) return nullptr;
  try {
    auto file = std::make_shared<MappedFile>(path);
    const auto bytes = file->bytes();
    Footer footer;
    if (bytes.size() < sizeof footer) return nullptr;
    std::memcpy(&footer, bytes.data() + bytes.size() - sizeof footer, sizeof footer);
    *content = bytes.first(bytes.size() - sizeof footer);
    return content->size() <= limit && fits(footer, content->size(), xxh3_hex(*content)) ? file : nullptr;
  } catch (const Error&) {
    return nullptr;  // a fault in the cache must not stop the caller
  }
}

bool read_cached(const std::string& path, std::span<std::byte> into) {
  if (path.empty()) return false;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  Footer footer;
  Xxh3 hash;
  bool whole = true;
  // Each piece is hashed while the processor's cache still holds it.
  for (size_t at = 0; whole && at < into.size(); at += kPiece) {
    const auto piece = into.subspan(at, std::min(kPiece, into.size() - at));
    whole = read_exactly(fd, piece.data(), piece.size(), at);
    if (whole) hash.update(piece);
  }
  whole = whole && read_exactly(fd, &footer, sizeof footer, into.size());
  ::close(fd);
  return whole && fits(footer, into.size(), hash.hex());
}

void shrink_cache(const std::string& folder, uint64_t limit) {
  namespace fs = std::filesystem;
  struct File {
    fs::path path;
    fs::file_time_type time;
    uint64_t size;
  };
  std::vector<File> files;
  uint64_t total = 0;
  std::error_code status;
  for (fs::recursive_directory_iterator it(folder, status), end; !status && it != end; it.increment(status)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored)) continue;
    files.push_back({it->path(), it->last_write_time(ignored), it->file_size(ignored)});
    if (!ignored) total += files.back().size;
  }
  if (total <= limit) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.time < b.time; });
  for (const File& file : files) {
    if (total <= limit / 10 * 9) break;
    if (fs::remove(file.path, status)) total -= std::min(total, file.size);
  }
}

}  // namespace perigee
