// One file of records (*.pgr): rows of `stride` bytes and, for each row, `variable` pieces of any length, in blocks that have a checksum each and
// may be compressed. Any record is found in O(1); the file is mapped. What the bytes mean stands in `about`, which src/data/records reads.
//
//   header   4096 bytes: magic, version, zeros
//   blocks   from multiples of 64: rows, then, if variable > 0, (rows * variable + 1) u64 ends in the arena, the arena
//   table    for each block u64: offset, stored bytes, bytes, XXH3-64 of the stored bytes; both sizes are equal where it is not compressed
//   footer   JSON: {"records", "per_block", "stride", "variable", "about"}
//   tail     48 bytes: u64 offset of the table, blocks, offset of the footer, its bytes, XXH3-64 of table and footer, magic
//
// All numbers are little-endian.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "src/core/json.h"
#include "src/io/file.h"

namespace perigee::records {

struct ShardLayout {
  int64_t per_block = 1;  // rows of each block but the last
  size_t stride = 0;      // bytes of a row, a multiple of 8
  size_t variable = 0;    // pieces of any length that each record has
  bool operator==(const ShardLayout&) const = default;
};

inline constexpr size_t kMostPieces = 64;
inline constexpr size_t kMostCompressed = size_t{32} << 20;  // bytes of a block that is compressed: its reader needs them

// A block as it is used: one stretch of memory.
class ShardBlock {
 public:
  ShardBlock(std::span<const std::byte> bytes, int64_t rows, const ShardLayout& layout) : bytes_(bytes), rows_(rows), layout_(&layout) {}
  const std::byte* row(int64_t number) const { return bytes_.data() + static_cast<size_t>(number) * layout_->stride; }
  // Empty also where the ends are no ends: valid() says so.
  std::span<const std::byte> piece(int64_t row, size_t number) const;
  // Whether the pieces lie side by side and fill the arena.
  bool valid() const;

 private:
  uint64_t end_of(size_t number) const;
  std::span<const std::byte> bytes_;
  int64_t rows_;
  const ShardLayout* layout_;
};

class Shard {
 public:
  // Error(data) with the offset for what is no such file, cut short or damaged; blocks are checked when they are first used.
  explicit Shard(const std::string& path);
  Shard(std::string name, std::span<const std::byte> content);  // which must outlive it

  const std::string& name() const { return name_; }
  int64_t records() const { return records_; }
  int64_t blocks() const { return blocks_; }
  const ShardLayout& layout() const { return layout_; }
  const Json& about() const { return about_; }
  uint64_t hash() const { return hash_; }  // of table and footer, and so of everything
  uint64_t bytes() const { return content_.size(); }

  bool compressed(int64_t block) const;
  int64_t rows(int64_t block) const;
  size_t block_bytes(int64_t block) const;
  // A block that is not compressed, as it lies in the file. Thread-safe, and allocates nothing.
  ShardBlock block(int64_t number) const;
  // The same of any block, in memory of its own.
  ShardBlock block(int64_t number, Bytes& memory) const;
  // Asks for the memory of a row, without waiting.
  void expect(int64_t record) const;

 private:
  struct Entry {
    uint64_t offset, stored, bytes, hash;
  };
  void open();
  void read_footer(std::span<const std::byte> footer);
  void check_table(uint64_t table_offset) const;
  Entry entry(int64_t block) const;
  void verify(int64_t block, const Entry& entry) const;
  [[noreturn]] void damaged(const std::string& what, uint64_t offset) const;

  std::string name_;
  MappedFile file_;
  std::span<const std::byte> content_, table_;
  int64_t records_ = 0, blocks_ = 0;
  ShardLayout layout_;
  Json about_;
  uint64_t hash_ = 0;
  std::unique_ptr<std::atomic<uint8_t>[]> verified_;
};

}  // namespace perigee::records
