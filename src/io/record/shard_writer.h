// Writes one file of records (shard.h). Blocks are encoded apart, on any thread, and put into the file in order; the file has its name once
// it is whole. The same records give the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/io/record/shard.h"

namespace perigee::records {

// The rows of one block, as they come.
class BlockBuilder {
 public:
  BlockBuilder(const ShardLayout& layout, int level) : layout_(layout), level_(level) {}
  void clear();
  // Zeros, to be filled in until the next call.
  std::byte* add_row();
  // A piece of the last row; each row has layout.variable of them.
  void add_piece(std::span<const std::byte> bytes);
  int64_t rows() const { return rows_; }

  struct Encoded {
    Bytes stored;
    uint64_t bytes = 0, hash = 0;
  };
  // `level` 0: as it is; else compressed by Zstandard where that makes it smaller.
  Encoded encode() const;

 private:
  ShardLayout layout_;
  int level_;
  int64_t rows_ = 0;
  Bytes fixed_, arena_;
  std::vector<uint64_t> ends_{0};
};

class ShardWriter {
 public:
  // Writes into `path` + ".part". Error(resources) when that cannot be.
  ShardWriter(const std::string& path, const ShardLayout& layout);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  void add(const BlockBuilder::Encoded& block);
  // `about` says what the records are. On disk, and with its name, when it returns. The file's hash.
  uint64_t finish(int64_t records, const Json& about);
  uint64_t bytes() const { return at_; }

 private:
  void write(std::span<const std::byte> bytes);
  [[noreturn]] void fail(const char* what) const;

  std::string path_, part_;
  ShardLayout layout_;
  int file_ = -1;
  uint64_t at_ = 0;
  Bytes table_;
};

}  // namespace perigee::records
