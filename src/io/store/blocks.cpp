#include "src/io/store/blocks.h"

#include <mutex>

#include "src/io/digest.h"
#include "src/io/store/cached_file.h"
#include "src/io/store/transfer.h"

namespace perigee {
namespace {

constexpr uint64_t kCheckEvery = uint64_t{256} << 20;

uint64_t cache_limit() {
  static const auto limit = static_cast<uint64_t>(store_setting("PERIGEE_STORE_CACHE_MB", 8192, 0, int64_t{1} << 30)) << 20;
  return limit;
}

const std::string& cache_folder() {
  static const std::string folder = [] {
    const std::string user = cache_limit() == 0 ? "" : user_cache_folder();
    return user.empty() ? "" : user + "/blocks";
  }();
  return folder;
}

std::string block_path(const std::string& url, const std::string& version, uint64_t offset) {
  const std::string& folder = cache_folder();
  if (folder.empty() || version.empty()) return "";
  const std::string name = xxh3_hex(as_bytes(url + "\n" + version + "\n" + std::to_string(offset)));
  return folder + "/" + name.substr(0, 2) + "/" + name.substr(2);
}

}  // namespace

bool find_block(const std::string& url, const std::string& version, uint64_t offset, std::span<std::byte> into) {
  return read_cached(block_path(url, version, offset), into);
}

bool map_block(const std::string& url, const std::string& version, uint64_t offset, std::span<std::byte> into) {
  return map_cached_over(block_path(url, version, offset), into);
}

bool has_block(const std::string& url, const std::string& version, uint64_t offset) {
  const std::string path = block_path(url, version, offset);
  return !path.empty() && file_exists(path);
}

void keep_block(const std::string& url, const std::string& version, uint64_t offset, std::span<const std::byte> content) {
  const std::string path = block_path(url, version, offset);
  if (path.empty()) return;
  keep_cached(path, content);
  static std::mutex mutex;
  static uint64_t written = kCheckEvery;
  const std::lock_guard lock(mutex);
  written += content.size();
  if (written < kCheckEvery) return;
  written = 0;
  shrink_cache(cache_folder(), cache_limit());
}

}  // namespace perigee
