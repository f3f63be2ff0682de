// The ledger of a run: the append-only file `ledger` in its folder. Whatever happens to the process or the disk, the file is whole
// records, at most with one torn behind them, which the next opening cuts off.
#pragma once

#include <string>
#include <vector>

#include "cluster/ledger/ledger.h"

namespace perigee {

class FileLedger final : public LedgerStore {
 public:
  // Makes or opens `path`. A torn tail is cut off with a warning. Error(data) when the file is damaged before its end or is no ledger,
  // Error(resources) when it cannot be opened or when another process is writing it.
  explicit FileLedger(const std::string& path);
  FileLedger(const FileLedger&) = delete;
  FileLedger& operator=(const FileLedger&) = delete;
  ~FileLedger() override;

  bool append(std::span<const std::byte> record) override;  // all of it or nothing
  // After a failed fsync the kernel may have dropped what it could not write: the next call writes it again before it claims success.
  bool sync() override;
  std::vector<std::byte> read() override;

  // The whole records of a ledger that another process may be writing. Error(data) when there is none or when it is damaged.
  static std::vector<std::byte> load(const std::string& path);

 private:
  bool write_at(size_t offset, std::span<const std::byte> bytes);

  std::string path_;
  int fd_ = -1;
  size_t size_ = 0;                  // of the whole records and the header
  size_t synced_ = 0;                // of that, known to be on the disk
  std::vector<std::byte> unsynced_;  // the bytes [synced_, size_)
  bool rewrite_ = false;             // an fsync failed since
  bool cut_ = false;                 // a write failed and could not be taken back yet
};

}  // namespace perigee
