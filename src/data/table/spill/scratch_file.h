// A file without a name for what is larger than memory: it was removed when it was opened, so that nothing stays behind, however the process ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace perigee::tables {

// Where the steps of a table put what is larger than the memory that they may have, and how much that is.
struct TableRoom {
  uint64_t memory = 0;  // bytes for all that a step holds
  std::string folder = {};
  int threads = 1;

  // The share of the memory that a step holds of a table before it goes to the disk, or reads of it at once.
  uint64_t part() const { return memory / 8; }
};

// `memory` 0: PERIGEE_TABLE_MEMORY ("512MiB", "4GB"), or half of what the machine or the control group has. The folder is TMPDIR, or /var/tmp: /tmp
// may lie in memory. Error(usage) for a variable that is no amount.
TableRoom room_for_tables(uint64_t memory = 0);
// "512MiB", "2GB" or a number of bytes, from 1 MiB. Error(usage) at `where`.
uint64_t table_memory_of(const std::string& text, const std::string& where);

class ScratchFile {
 public:
  // Error(resources), here and in append(): the folder, how much is there, and the way out.
  explicit ScratchFile(const TableRoom& room);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // Both from several threads at once. Returns where the bytes begin.
  uint64_t append(std::span<const std::byte> bytes);
  void read(uint64_t at, std::span<std::byte> bytes) const;
  // All of it, as long as the pointer is kept; changes are the process's own. Not empty.
  std::shared_ptr<std::byte> mapped() const;
  // These bytes are not read again: the disk may have them back.
  void release(uint64_t at, uint64_t size) const;

 private:
  [[noreturn]] void fail(const char* what) const;
  std::string folder_;
  int file_ = -1;
  std::atomic<uint64_t> size_ = 0;
};

}  // namespace perigee::tables
