#include "src/io/store/cached_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "src/core/error.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

// A cached file is the content and this behind it: at the end, so that the content is aligned like the mapping. Only a power cut or another
// program can have made the content another one: `boot` and `written_s` tell of both, and the digest is compared where they do not fit.
struct Footer {
  char magic[16];
  char digest[32];
  uint64_t size;
  int64_t written_s;  // the file's time, whole seconds, which every file system keeps
  char boot[40];      // as Linux names this boot of the machine
};
constexpr char kMagic[16] = "perigee-cache-2";
constexpr size_t kPiece = size_t{256} << 10;

class CachedDescriptor {
 public:
  CachedDescriptor(const std::string& path, int flags) : fd_(path.empty() ? -1 : ::open(path.c_str(), flags | O_CLOEXEC)) {}
  CachedDescriptor(const CachedDescriptor&) = delete;
  CachedDescriptor& operator=(const CachedDescriptor&) = delete;
  ~CachedDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

bool read_exactly(int fd, void* to, size_t size, uint64_t at) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = ::pread(fd, static_cast<char*>(to) + done, size - done, static_cast<off_t>(at + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

// Empty where the system does not say: then every digest is compared.
std::string_view this_boot() {
  static const std::string boot = [] {
    char text[sizeof Footer::boot] = {};
    const CachedDescriptor file("/proc/sys/kernel/random/boot_id", O_RDONLY);
    return file.get() >= 0 && read_exactly(file.get(), text, 36, 0) ? std::string(text, 36) : std::string();
  }();
  return boot;
}

void stamp(Footer& footer) {
  footer.written_s = std::time(nullptr);
  std::memset(footer.boot, 0, sizeof footer.boot);
  std::memcpy(footer.boot, this_boot().data(), this_boot().size());
}

void set_time(int fd, int64_t seconds) {
  const timespec times[] = {{seconds, 0}, {seconds, 0}};
  ::futimens(fd, times);
}

bool is_whole(const Footer& footer, uint64_t size) { return std::memcmp(footer.magic, kMagic, sizeof kMagic) == 0 && footer.size == size; }

bool is_untouched(const Footer& footer, const struct stat& info) {
  return !this_boot().empty() && std::memcmp(footer.boot, this_boot().data(), this_boot().size()) == 0 &&
         info.st_mtim.tv_sec == footer.written_s && info.st_mtim.tv_nsec == 0;
}

bool has_digest(const Footer& footer, std::string_view digest) { return digest == std::string_view(footer.digest, sizeof footer.digest); }

// A file that was compared is not compared again before the next boot. A cache that may not be written stays as it is.
void stamp_file(const std::string& path, Footer footer) {
  const CachedDescriptor file(path, O_WRONLY);
  if (file.get() < 0) return;
  stamp(footer);
  if (::pwrite(file.get(), &footer, sizeof footer, static_cast<off_t>(footer.size)) != sizeof footer) return;
  set_time(file.get(), footer.written_s);
}

// The footer of an open file of exactly this content; false when it is no such file.
bool read_footer(int fd, uint64_t size, Footer& footer, struct stat& info) {
  return ::fstat(fd, &info) == 0 && static_cast<uint64_t>(info.st_size) == size + sizeof footer &&
         read_exactly(fd, &footer, sizeof footer, size) && is_whole(footer, size);
}

bool read_and_compare(const std::string& path, int fd, const Footer& footer, std::span<std::byte> into) {
  Xxh3 hash;
  // Each piece is hashed while the processor's cache still holds it.
  for (size_t at = 0; at < into.size(); at += kPiece) {
    const auto piece = into.subspan(at, std::min(kPiece, into.size() - at));
    if (!read_exactly(fd, piece.data(), piece.size(), at)) return false;
    hash.update(piece);
  }
  if (!has_digest(footer, hash.hex())) return false;
  stamp_file(path, footer);
  return true;
}

}  // namespace

void keep_cached(const std::string& path, std::span<const std::byte> content) {
  if (path.empty()) return;
  Footer footer = {};
  std::memcpy(footer.magic, kMagic, sizeof kMagic);
  std::memcpy(footer.digest, xxh3_hex(content).data(), sizeof footer.digest);
  footer.size = content.size();
  stamp(footer);
  const std::span<const std::byte> pieces[] = {content, std::as_bytes(std::span(&footer, 1))};
  try {
    write_file(path, pieces, false);
    const CachedDescriptor file(path, O_RDONLY);
    if (file.get() >= 0) set_time(file.get(), footer.written_s);
  } catch (const Error&) {
    // The cache is a convenience.
  }
}

std::shared_ptr<MappedFile> map_cached(const std::string& path, uint64_t limit, std::span<const std::byte>* content) {
  if (path.empty() || !file_exists(path)) return nullptr;
  try {
    auto file = std::make_shared<MappedFile>(path);
    const CachedDescriptor descriptor(path, O_RDONLY);
    const auto bytes = file->bytes();
    Footer footer;
    struct stat info {};
    if (bytes.size() < sizeof footer || bytes.size() - sizeof footer > limit) return nullptr;
    *content = bytes.first(bytes.size() - sizeof footer);
    if (descriptor.get() < 0 || !read_footer(descriptor.get(), content->size(), footer, info)) return nullptr;
    if (std::memcmp(&footer, bytes.data() + content->size(), sizeof footer) != 0) return nullptr;  // replaced in between
    if (is_untouched(footer, info)) return file;
    if (!has_digest(footer, xxh3_hex(*content))) return nullptr;
    stamp_file(path, footer);
    return file;
  } catch (const Error&) {
    return nullptr;  // a fault in the cache must not stop the caller
  }
}

bool read_cached(const std::string& path, std::span<std::byte> into) {
  const CachedDescriptor file(path, O_RDONLY);
  Footer footer;
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0 || static_cast<uint64_t>(info.st_size) != into.size() + sizeof footer) return false;
  // Content and footer by one call: a small file costs what a local one does.
  const iovec both[] = {{into.data(), into.size()}, {&footer, sizeof footer}};
  const bool at_once = ::preadv(file.get(), both, 2, 0) == info.st_size;
  if (!at_once &&
      (!read_exactly(file.get(), into.data(), into.size(), 0) || !read_exactly(file.get(), &footer, sizeof footer, into.size())))
    return false;
  if (!is_whole(footer, into.size())) return false;
  if (is_untouched(footer, info)) return true;
  if (!has_digest(footer, xxh3_hex(into))) return false;
  stamp_file(path, footer);
  return true;
}

bool map_cached_over(const std::string& path, std::span<std::byte> into) {
  const CachedDescriptor file(path, O_RDONLY);
  Footer footer;
  struct stat info {};
  if (into.empty() || file.get() < 0 || !read_footer(file.get(), into.size(), footer, info)) return false;
  if (!is_untouched(footer, info) && !read_and_compare(path, file.get(), footer, into)) return false;
  return ::mmap(into.data(), into.size(), PROT_READ, MAP_PRIVATE | MAP_FIXED, file.get(), 0) != MAP_FAILED;
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
