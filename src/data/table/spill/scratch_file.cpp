#include "src/data/table/spill/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "src/core/cores.h"
#include "src/core/error.h"

namespace perigee::tables {
namespace {

constexpr uint64_t kLeastTableMemory = uint64_t{1} << 20, kMostTableMemory = uint64_t{1} << 50;
constexpr const char* kTableMemoryVariable = "PERIGEE_TABLE_MEMORY";

uint64_t memory_of_machine() {
  const auto pages = static_cast<uint64_t>(std::max<long>(::sysconf(_SC_PHYS_PAGES), 0));
  const uint64_t machine = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)), group = static_cast<uint64_t>(memory_limit());
  return group > 0 && (group < machine || machine == 0) ? group : machine;
}

bool is_folder_for_files(const char* path) { return ::access(path, W_OK | X_OK) == 0; }

}  // namespace

uint64_t table_memory_of(const std::string& text, const std::string& where) {
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"", 1}, {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1024}, {"MiB", 1024 * 1024.0}, {"GiB", 1024 * 1024 * 1024.0}};
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = status == std::errc() ? std::string_view(text).substr(static_cast<size_t>(end - text.data())) : "?";
  for (const auto& [name, bytes] : kUnits)
    if (unit == name && number * bytes >= static_cast<double>(kLeastTableMemory) && number * bytes <= static_cast<double>(kMostTableMemory))
      return static_cast<uint64_t>(number * bytes);
  throw Error(ErrorKind::usage, {.where = where,
                                 .what = "this is no amount of memory for tables",
                                 .got = "'" + text.substr(0, 40) + "'",
                                 .expected = "'512MiB', '4GB' or a number of bytes, at least 1 MiB"});
}

TableRoom room_for_tables(uint64_t memory) {
  const char* given = std::getenv(kTableMemoryVariable);
  if (memory == 0 && given != nullptr && *given != '\0') memory = table_memory_of(given, kTableMemoryVariable);
  if (memory == 0) memory = std::max(memory_of_machine() / 2, kLeastTableMemory);
  const char* chosen = std::getenv("TMPDIR");
  const char* usual = is_folder_for_files("/var/tmp") ? "/var/tmp" : "/tmp";
  return {.memory = memory, .folder = chosen != nullptr && *chosen != '\0' ? chosen : usual, .threads = available_cores()};
}

ScratchFile::ScratchFile(const TableRoom& room) : folder_(room.folder) {
#ifdef O_TMPFILE
  file_ = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
#endif
  if (file_ >= 0) return;
  // A file system that has no files without names.
  std::string name = folder_ + "/perigee-table-XXXXXX";
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0) fail("no scratch file can be made for a table that is larger than its memory");
  ::unlink(name.c_str());
}

ScratchFile::~ScratchFile() { ::close(file_); }

void ScratchFile::fail(const char* what) const {
  const int reason = errno;
  throw Error(ErrorKind::resources, {.where = folder_,
                                     .what = std::string(what) + ": " + std::strerror(reason),
                                     .got = std::to_string(size_ >> 20) + " MiB written",
                                     .expected = "room for about as much as the table has, twice where steps follow each other",
                                     .hint = "set TMPDIR to a folder with more room, or give more memory: PERIGEE_TABLE_MEMORY=8GiB"});
}

uint64_t ScratchFile::append(std::span<const std::byte> bytes) {
  const uint64_t at = size_.fetch_add(bytes.size());
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::pwrite(file_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(at + done));
    if (count < 0 && errno != EINTR) fail("the scratch file of a table that is larger than its memory cannot be written");
    if (count > 0) done += static_cast<size_t>(count);
  }
  return at;
}

void ScratchFile::read(uint64_t at, std::span<std::byte> bytes) const {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::pread(file_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(at + done));
    if (count == 0) errno = EIO;  // it is shorter than what was written
    if (count == 0 || (count < 0 && errno != EINTR)) fail("the scratch file of a table that is larger than its memory cannot be read");
    if (count > 0) done += static_cast<size_t>(count);
  }
}

std::shared_ptr<std::byte> ScratchFile::mapped() const {
  const uint64_t size = size_;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file_, 0);
  if (memory == MAP_FAILED) fail("the scratch file of a table that is larger than its memory cannot be read");
  return {static_cast<std::byte*>(memory), [size](std::byte* data) { ::munmap(data, size); }};
}

void ScratchFile::release([[maybe_unused]] uint64_t at, [[maybe_unused]] uint64_t size) const {
#ifdef FALLOC_FL_PUNCH_HOLE
  // A file system that cannot do this keeps the bytes until the end: nothing is lost but room.
  [[maybe_unused]] const int ignored =
      ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at), static_cast<off_t>(size));
#endif
}

}  // namespace perigee::tables
