// Whole files: read, mapped, or written so that a reader sees the old content or the new one and nothing between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

using Bytes = std::vector<std::byte>;

inline std::span<const std::byte> as_bytes(std::string_view text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }
inline std::string_view as_text(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// True for a regular file, also behind a symbolic link.
bool file_exists(const std::string& path);
bool folder_exists(const std::string& path);

// Error(data) when nothing is there, with the nearest names of the folder, or where relative paths start.
void expect_there(const std::string& path);
// "did you mean 'kept'?": names beside a path that leads to nothing, as they are written there, that are like its own; empty where none is.
std::string nearby_hint(const std::string& path);

// Error(data) when it cannot be read or is no regular file; Error(resources) when it is larger than `limit` bytes.
Bytes read_file(const std::string& path, uint64_t limit = uint64_t{1} << 36);
// The same into memory that is there already and only grows.
void read_file(const std::string& path, uint64_t limit, Bytes& bytes);

// Temporary file beside `path`, fsync, rename, fsync of the folder. Error(resources) when the disk is full or fails; the old file is
// then intact and no temporary remains. Missing folders are made.
void write_file(const std::string& path, std::span<const std::byte> bytes);
// The same from several pieces, without joining them in memory. `durable` false leaves out the fsyncs: for what can be made again and is
// checked when it is read, since a power cut may leave an empty file.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces, bool durable = true);

// $XDG_CACHE_HOME/perigee or ~/.cache/perigee; empty when neither variable is set.
std::string user_cache_folder();

// `path`, taken from `folder` unless it is absolute.
std::string path_in(const std::string& folder, const std::string& path);

// Move-only read-only mapping. Only for files that are not shortened in place: that would end the process with SIGBUS.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);  // Error(data) when it cannot be opened
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace perigee
