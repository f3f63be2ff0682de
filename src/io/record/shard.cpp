#include "src/io/record/shard.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "src/core/config.h"
#include "src/core/error.h"
#include "src/io/codec/zstd.h"
#include "src/io/digest.h"
#include "src/io/record/shard_format.h"

namespace perigee::records {

using namespace format;

// --- A block -------------------------------------------------------------------------------------------------------------------

uint64_t ShardBlock::end_of(size_t number) const {
  return number_at(bytes_.data() + static_cast<size_t>(rows_) * layout_->stride + 8 * number);
}

std::span<const std::byte> ShardBlock::piece(int64_t row, size_t number) const {
  const size_t pieces = static_cast<size_t>(rows_) * layout_->variable, at = static_cast<size_t>(row) * layout_->variable + number;
  const size_t arena = static_cast<size_t>(rows_) * layout_->stride + 8 * (pieces + 1), size = bytes_.size() - arena;
  const uint64_t begin = end_of(at), end = end_of(at + 1);
  if (begin > end || end > size) return {};
  return bytes_.subspan(arena + begin, end - begin);
}

bool ShardBlock::valid() const {
  if (layout_->variable == 0) return true;
  const size_t pieces = static_cast<size_t>(rows_) * layout_->variable;
  const size_t size = bytes_.size() - (static_cast<size_t>(rows_) * layout_->stride + 8 * (pieces + 1));
  if (end_of(0) != 0 || end_of(pieces) != size) return false;
  for (size_t i = 0; i < pieces; ++i)
    if (end_of(i) > end_of(i + 1)) return false;
  return true;
}

// --- A file --------------------------------------------------------------------------------------------------------------------

Shard::Shard(const std::string& path) : name_(path), file_(path), content_(file_.bytes()) { open(); }
Shard::Shard(std::string name, std::span<const std::byte> content) : name_(std::move(name)), content_(content) { open(); }

void Shard::damaged(const std::string& what, uint64_t offset) const {
  throw Error(ErrorKind::data, {.where = name_ + ": byte " + std::to_string(offset),
                                .what = what,
                                .hint = "delete the file and run `perigee data prepare` again: it makes what is not there"});
}

void Shard::open() {
  if (content_.size() < kHeader || std::memcmp(content_.data(), kMagic, kMagicBytes) != 0)
    throw Error(ErrorKind::data,
                {.where = name_, .what = "is no record file", .expected = "a .pgr file that `perigee data prepare` has written"});
  if (const uint64_t version = number_at(content_.data() + kMagicBytes); version != kVersion)
    throw Error(ErrorKind::data, {.where = name_ + ": byte 8",
                                  .what = "the record file has another version",
                                  .got = std::to_string(version),
                                  .expected = std::to_string(kVersion),
                                  .hint = "prepare the data again with this program"});
  const uint64_t tail_at = content_.size() - kTail;
  if (content_.size() < kHeader + kTail) damaged("the record file is cut short", content_.size());
  const std::byte* tail = content_.data() + tail_at;
  if (std::memcmp(tail + kTail - kMagicBytes, kMagic, kMagicBytes) != 0)
    damaged("the record file is cut short: its end is missing", tail_at);
  const uint64_t table_at = number_at(tail), blocks = number_at(tail + 8), footer_at = number_at(tail + 16), footer = number_at(tail + 24);
  hash_ = number_at(tail + 32);
  if (table_at < kHeader || table_at > tail_at || blocks > (tail_at - table_at) / kEntry || footer_at != table_at + blocks * kEntry ||
      footer != tail_at - footer_at || footer > kMostFooter)
    damaged("the record file's tail does not fit its size", tail_at);
  blocks_ = static_cast<int64_t>(blocks);
  table_ = content_.subspan(table_at, blocks * kEntry);
  if (xxh3_64(content_.subspan(table_at, tail_at - table_at)) != hash_) damaged("the record file's table or footer is damaged", table_at);
  read_footer(content_.subspan(footer_at, footer));
  check_table(table_at);
  verified_ = std::make_unique<std::atomic<uint8_t>[]>(blocks);
}

void Shard::read_footer(std::span<const std::byte> footer) {
  try {
    const Json json = Json::parse(as_text(footer), name_ + ": footer");
    const Config config(json, name_ + ": footer", ErrorKind::data);
    records_ = config.integer_in("records", 1, int64_t{1} << 48);
    layout_.per_block = config.integer_in("per_block", 1, int64_t{1} << 32);
    layout_.stride = static_cast<size_t>(config.integer_in("stride", 0, int64_t{1} << 40));
    layout_.variable = static_cast<size_t>(config.integer_in("variable", 0, kMostPieces));
    if (layout_.stride % 8 != 0) config.fail("stride", "is no multiple of 8", std::to_string(layout_.stride));
    about_ = config.object("about").json();
  } catch (const Error& error) {
    throw Error(ErrorKind::data, error.parts());
  }
  if (blocks_ != (records_ + layout_.per_block - 1) / layout_.per_block)
    damaged("the record file has another number of blocks than its records need", content_.size() - kTail);
}

void Shard::check_table(uint64_t table_at) const {
  for (int64_t b = 0; b < blocks_; ++b) {
    const Entry e = entry(b);
    const auto n = static_cast<unsigned __int128>(rows(b));
    const unsigned __int128 fixed = n * layout_.stride + (layout_.variable > 0 ? 8 * (n * layout_.variable + 1) : 0);
    const bool size_fits = layout_.variable > 0 ? e.bytes >= fixed : e.bytes == fixed;
    const bool lies_inside = e.offset >= kHeader && e.offset % kAlignment == 0 && e.offset <= table_at && e.stored <= table_at - e.offset;
    if (!size_fits || !lies_inside || e.stored > e.bytes || (e.stored != e.bytes && e.bytes > kMostCompressed))
      damaged("block " + std::to_string(b) + " of the record file does not lie in it", table_at + static_cast<uint64_t>(b) * kEntry);
  }
}

Shard::Entry Shard::entry(int64_t block) const {
  assert(block >= 0 && block < blocks_);
  const std::byte* at = table_.data() + static_cast<size_t>(block) * kEntry;
  return {number_at(at), number_at(at + 8), number_at(at + 16), number_at(at + 24)};
}

bool Shard::compressed(int64_t block) const {
  const Entry e = entry(block);
  return e.stored != e.bytes;
}

int64_t Shard::rows(int64_t block) const { return std::min(layout_.per_block, records_ - block * layout_.per_block); }
size_t Shard::block_bytes(int64_t block) const { return entry(block).bytes; }

void Shard::verify(int64_t block, const Entry& e) const {
  std::atomic<uint8_t>& done = verified_[static_cast<size_t>(block)];
  if (done.load(std::memory_order_acquire) != 0) return;
  const std::span<const std::byte> stored = content_.subspan(e.offset, e.stored);
  if (xxh3_64(stored) != e.hash) damaged("block " + std::to_string(block) + " of the record file is damaged", e.offset);
  if (e.stored == e.bytes && !ShardBlock(stored, rows(block), layout_).valid())
    damaged("block " + std::to_string(block) + " of the record file has pieces that do not fit it", e.offset);
  done.store(1, std::memory_order_release);
}

ShardBlock Shard::block(int64_t number) const {
  const Entry e = entry(number);
  assert(e.stored == e.bytes);
  verify(number, e);
  return ShardBlock(content_.subspan(e.offset, e.bytes), rows(number), layout_);
}

ShardBlock Shard::block(int64_t number, Bytes& memory) const {
  const Entry e = entry(number);
  verify(number, e);
  if (memory.size() < e.bytes) memory.resize(e.bytes);
  const std::span<std::byte> bytes(memory.data(), e.bytes);
  const std::span<const std::byte> stored = content_.subspan(e.offset, e.stored);
  if (e.stored == e.bytes) std::memcpy(bytes.data(), stored.data(), stored.size());
  else zstd_decompress(stored, bytes, name_ + ": byte " + std::to_string(e.offset));
  ShardBlock block(bytes, rows(number), layout_);
  if (!block.valid()) damaged("block " + std::to_string(number) + " of the record file has pieces that do not fit it", e.offset);
  return block;
}

void Shard::expect(int64_t record) const {
  constexpr size_t kMost = 4096;  // bytes of a record: what follows, the machine's own prefetching finds
  const Entry e = entry(record / layout_.per_block);
  if (e.stored != e.bytes) return;
  const std::byte* at = content_.data() + e.offset + static_cast<size_t>(record % layout_.per_block) * layout_.stride;
  for (size_t i = 0; i < std::min(layout_.stride, kMost); i += 64) __builtin_prefetch(at + i);
}

}  // namespace perigee::records
