#include "src/io/confined.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <climits>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "src/core/error.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

struct Roots {
  std::mutex mutex;
  std::vector<std::string> paths;
  std::atomic<size_t> count{0};  // nearly always 0: then no caller needs the lock
};
Roots& roots() {
  static Roots all;
  return all;
}

bool lies_in(std::string_view path, std::string_view root) {
  if (!path.starts_with(root)) return false;
  return path.size() == root.size() || root.ends_with('/') || path[root.size()] == '/';
}

std::optional<std::string> root_of(const std::string& path) {
  if (roots().count == 0) return std::nullopt;
  const std::lock_guard lock(roots().mutex);
  for (const std::string& root : roots().paths)
    if (lies_in(path, root)) return root;
  return std::nullopt;
}

int open_confined_retrying(const char* path, int flags) {
  int fd = -1;
  do fd = ::open(path, flags | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  return fd;
}

std::string link_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

// Where the open file lies now; empty when the system does not say.
std::string confined_place_of(int fd) {
  char path[PATH_MAX];
  const ssize_t size = ::readlink(link_of(fd).c_str(), path, sizeof path);
  return size > 0 && size < static_cast<ssize_t>(sizeof path) ? std::string(path, static_cast<size_t>(size)) : "";
}

// A handle on the file without opening it: a device or a FIFO that the path might lead to must not notice.
int find_within(const std::string& path, const std::string& root) {
  const int fd = open_confined_retrying(path.c_str(), O_PATH);
  if (fd < 0 || lies_in(confined_place_of(fd), root)) return fd;
  ::close(fd);
  errno = EXDEV;
  return -1;
}

}  // namespace

ConfinedFolder::ConfinedFolder(std::string root) : root_(std::move(root)) {
  assert(root_.starts_with('/'));
  const std::lock_guard lock(roots().mutex);
  roots().paths.push_back(root_);
  ++roots().count;
}

ConfinedFolder::~ConfinedFolder() {
  const std::lock_guard lock(roots().mutex);
  const auto found = std::find(roots().paths.begin(), roots().paths.end(), root_);
  assert(found != roots().paths.end());
  roots().paths.erase(found);
  --roots().count;
}

int open_for_reading(const std::string& path, int flags) {
  const auto root = root_of(path);
  if (!root) return open_confined_retrying(path.c_str(), flags);
  const int found = find_within(path, *root);
  if (found < 0) return -1;
  const int fd = open_confined_retrying(link_of(found).c_str(), flags);
  const int error = errno;
  ::close(found);
  errno = error;
  return fd;
}

int stat_for_reading(const std::string& path, struct stat* info) {
  const auto root = root_of(path);
  if (!root) return ::stat(path.c_str(), info);
  const int found = find_within(path, *root);
  if (found < 0) return -1;
  const int status = ::fstat(found, info);
  ::close(found);
  return status;
}

std::vector<std::vector<FolderEntry>> list_folders(const std::vector<std::string>& paths) {
  constexpr size_t kListedAtOnce = 8;
  std::vector<std::vector<FolderEntry>> all(paths.size());
  for (size_t begin = 0; begin < paths.size(); begin += kListedAtOnce) {
    std::vector<std::future<std::vector<FolderEntry>>> some;
    for (size_t i = begin; i < std::min(begin + kListedAtOnce, paths.size()); ++i) {
      const bool far = is_store_path(local_path(paths[i]));
      some.push_back(std::async(far ? std::launch::async : std::launch::deferred, [&paths, i] { return list_folder(paths[i]); }));
    }
    for (size_t i = 0; i < some.size(); ++i) all[begin + i] = some[i].get();
  }
  return all;
}

std::vector<FolderEntry> list_folder(const std::string& given) {
  const std::string path = local_path(given);
  if (is_store_path(path)) {
    std::vector<FolderEntry> entries;
    for (StoredEntry& entry : list_stored(path)) entries.push_back({std::move(entry.name), entry.folder, !entry.folder});
    return entries;
  }
  const auto fail = [&](int error) -> Error {
    return {ErrorKind::data, {.where = path, .what = std::string("the folder cannot be read: ") + std::strerror(error)}};
  };
  const int fd = open_for_reading(path, O_RDONLY | O_DIRECTORY);
  if (fd < 0) throw fail(errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::fdopendir(fd), ::closedir);
  if (!folder) {
    const int error = errno;
    ::close(fd);
    throw fail(error);
  }
  std::vector<FolderEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (!entry && errno != 0) throw fail(errno);
    if (!entry) break;
    FolderEntry each{.name = entry->d_name};
    if (each.name == "." || each.name == "..") continue;
    struct stat info {};
    if (::fstatat(fd, entry->d_name, &info, 0) == 0) each.folder = S_ISDIR(info.st_mode), each.file = S_ISREG(info.st_mode);
    entries.push_back(std::move(each));
  }
  std::sort(entries.begin(), entries.end(), [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return entries;
}

std::string file_identity(const std::string& given) {
  const std::string path = local_path(given);
  if (is_store_path(path)) {
    const StoredInfo info = stat_stored(path);
    return info.kind == StoredKind::file && !info.version.empty() ? path + "\n" + std::to_string(info.size) + "\n" + info.version : "";
  }
  const int fd = open_for_reading(path, O_PATH);
  if (fd < 0) return "";
  struct stat info {};
  const std::string place = confined_place_of(fd);
  const bool known = ::fstat(fd, &info) == 0 && !place.empty();
  ::close(fd);
  if (!known) return "";
  return place + "\n" + std::to_string(info.st_size) + "\n" + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec) + "\n" + std::to_string(info.st_ino);
}

}  // namespace perigee
