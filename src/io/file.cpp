#include "src/io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include "src/core/error.h"
#include "src/io/confined.h"
#include "src/io/parts_file.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { release(); }
  int get() const { return fd_; }
  int release() { return fd_ < 0 ? 0 : ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

[[noreturn]] void fail_file(ErrorKind kind, const std::string& path, const char* what, int error) {
  throw Error(kind, {.where = path,
                     .what = std::string(what) + ": " + std::strerror(error),
                     .hint = error == ENOSPC ? "free some space on this disk" : ""});
}

int open_file_retrying(const char* path, int flags, mode_t mode = 0) {
  int fd = -1;
  do fd = ::open(path, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

size_t regular_size(const Descriptor& file, const std::string& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_file(ErrorKind::data, path, "cannot be examined", errno);
  if (!S_ISREG(info.st_mode)) throw Error(ErrorKind::data, {.where = path, .what = "is not a regular file"});
  return static_cast<size_t>(info.st_size);
}

Descriptor open_to_read(const std::string& path) {
  // O_NONBLOCK: a FIFO must be refused, not waited for.
  const int fd = open_for_reading(path, O_RDONLY | O_NONBLOCK);
  if (fd < 0 && errno == EXDEV)
    throw Error(ErrorKind::data,
                {.where = path, .what = "leads out of the folder that may be read", .hint = "a symbolic link on the way points elsewhere"});
  if (fd < 0) fail_file(ErrorKind::data, path, "cannot be opened", errno);
  return Descriptor(fd);
}

void write_all(const Descriptor& file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), std::min<size_t>(bytes.size(), 1 << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_file(ErrorKind::resources, path, "cannot be written", errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

void sync_folder(const std::string& folder) {
  const Descriptor handle(open_file_retrying(folder.c_str(), O_RDONLY | O_DIRECTORY));
  if (handle.get() < 0 || ::fsync(handle.get()) != 0) fail_file(ErrorKind::resources, folder, "cannot be synced", errno);
}

// `fill` writes the content.
void write_temporary(const std::string& temporary, const std::string& path, const std::function<void(const Descriptor&)>& fill,
                     bool durable) {
  Descriptor file(open_file_retrying(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666));
  if (file.get() < 0) fail_file(ErrorKind::resources, path, "cannot be created", errno);
  fill(file);
  if (durable && ::fsync(file.get()) != 0) fail_file(ErrorKind::resources, path, "cannot be synced", errno);
  if (file.release() != 0) fail_file(ErrorKind::resources, path, "cannot be closed", errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail_file(ErrorKind::resources, path, "cannot be replaced", errno);
}

void replace_file(const std::string& path, const std::function<void(const Descriptor&)>& fill, bool durable) {
  static std::atomic<unsigned> count{0};
  const std::string folder = folder_of(path);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_file(ErrorKind::resources, folder, "cannot be made", error.value());
  const std::string temporary = path + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(count++);
  try {
    write_temporary(temporary, path, fill, durable);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (durable) sync_folder(folder);
}

}  // namespace

bool file_exists(const std::string& given) {
  const std::string path = local_path(given);
  if (is_store_path(path)) return stat_stored(path).kind == StoredKind::file;
  struct stat info {};
  return stat_for_reading(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool folder_exists(const std::string& given) {
  const std::string path = local_path(given);
  if (is_store_path(path)) return stat_stored(path).kind == StoredKind::folder;
  struct stat info {};
  return stat_for_reading(path, &info) == 0 && S_ISDIR(info.st_mode);
}

std::string nearby_hint(const std::string& path) {
  constexpr size_t kMostNames = 10000;
  namespace fs = std::filesystem;
  std::string plain = path;
  while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  const fs::path parent = fs::path(plain).parent_path();
  std::vector<std::string> names;
  std::error_code status;
  for (const auto& entry : fs::directory_iterator(parent.empty() ? fs::path(".") : parent, status))
    if (names.size() < kMostNames) names.push_back(entry.path().filename().string());
  return nearest_hint(fs::path(plain).filename().string(), names);
}

void expect_there(const std::string& given) {
  const std::string path = local_path(given);
  if (is_store_path(path)) {
    if (stat_stored(path).kind == StoredKind::none) refuse_missing(parse_store_url(path));
    return;
  }
  namespace fs = std::filesystem;
  std::error_code status;
  if (file_exists(path) || fs::exists(path, status)) return;
  std::string hint = nearby_hint(path);
  if (hint.empty() && fs::path(path).is_relative()) hint = "relative paths begin at " + fs::current_path(status).string();
  throw Error(ErrorKind::data, {.where = path, .what = std::string("cannot be opened: ") + std::strerror(ENOENT), .hint = hint});
}

Bytes read_file(const std::string& path, uint64_t limit) {
  Bytes bytes;
  read_file(path, limit, bytes);
  return bytes;
}

void read_file(const std::string& path, uint64_t limit, Bytes& bytes) {
  if (path.starts_with("file://")) return read_file(local_path(path), limit, bytes);  // a copy, which others need not pay for
  if (is_store_path(path)) return read_stored(path, limit, bytes);
  const Descriptor file = open_to_read(path);
  const size_t size = regular_size(file, path);
  if (size > limit)
    throw Error(ErrorKind::resources, {.where = path,
                                       .what = "the file is too large",
                                       .got = std::to_string(size) + " bytes",
                                       .expected = "at most " + std::to_string(limit)});
  bytes.resize(size);
  for (size_t done = 0; done < size;) {
    const ssize_t count = ::read(file.get(), bytes.data() + done, std::min<size_t>(size - done, 1 << 30));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_file(ErrorKind::data, path, "cannot be read", errno);
    if (count == 0) throw Error(ErrorKind::data, {.where = path, .what = "the file became shorter while it was read"});
    done += static_cast<size_t>(count);
  }
}

void write_file(const std::string& path, std::span<const std::byte> bytes) { write_file(path, std::span(&bytes, 1)); }

void write_file(const std::string& given, std::span<const std::span<const std::byte>> pieces, bool durable) {
  const std::string path = local_path(given);
  if (is_store_path(path)) {
    put_stored(path, pieces);
    return;
  }
  replace_file(
      path,
      [&](const Descriptor& file) {
        for (const auto& piece : pieces) write_all(file, piece, path);
      },
      durable);
}

void write_file_in_parts(const std::string& given, const std::function<bool(std::string& part)>& next) {
  const std::string path = local_path(given);
  std::string part;
  if (is_store_path(path)) {
    std::string whole;
    for (bool more = true; more; whole += part) part.clear(), more = next(part);
    return write_file(path, as_bytes(whole));
  }
  replace_file(
      path,
      [&](const Descriptor& file) {
        for (bool more = true; more; write_all(file, as_bytes(part), path)) part.clear(), more = next(part);
      },
      true);
}

std::string user_cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') return std::string(cache) + "/perigee";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return std::string(home) + "/.cache/perigee";
  return "";
}

std::string path_in(const std::string& folder, const std::string& path) {
  if (is_store_path(folder) || is_store_path(path)) return store_path_in(local_path(folder), path);
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

MappedFile::MappedFile(const std::string& given) {
  const std::string path = local_path(given);
  if (is_store_path(path)) {
    const std::span<const std::byte> stored = map_stored(path);
    data_ = stored.data(), size_ = stored.size();
    return;
  }
  const Descriptor file = open_to_read(path);
  size_ = regular_size(file, path);
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail_file(ErrorKind::data, path, "cannot be mapped", errno);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace perigee
