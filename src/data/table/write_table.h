// Writes chunks of a table: CSV (.csv, .tsv), JSON Lines (.jsonl, .ndjson), both also .gz and .zst, Parquet and tar as they come, an array for each column
// (.npz) at the end. The file has its name once it is whole.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "src/data/table/frame.h"

namespace perigee::tables {

class TableWriter {
 public:
  virtual ~TableWriter() = default;
  virtual void add(const Frame& frame) = 0;
  virtual void finish() = 0;
};

// A file beside the one that it becomes; it is gone where it was not finished. Error(resources) when the disk is full or fails.
class PartFile {
 public:
  explicit PartFile(const std::string& path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  void write(std::span<const std::byte> bytes);
  void finish();
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail() const;
  std::string path_, temporary_;
  std::FILE* file_ = nullptr;
  uint64_t size_ = 0;
  bool done_ = false;
};

// Error(usage) for another suffix. shard_rows > 0: files of so many rows, NAME-00000.csv, NAME-00001.csv, ...
std::unique_ptr<TableWriter> write_table(const std::string& path, int64_t shard_rows = 0);

}  // namespace perigee::tables
