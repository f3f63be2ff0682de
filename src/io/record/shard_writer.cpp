#include "src/io/record/shard_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "src/core/error.h"
#include "src/io/codec/zstd.h"
#include "src/io/digest.h"
#include "src/io/record/shard_format.h"

namespace perigee::records {

using namespace format;

void BlockBuilder::clear() {
  rows_ = 0;
  fixed_.clear();
  arena_.clear();
  ends_.assign(1, 0);
}

std::byte* BlockBuilder::add_row() {
  assert(ends_.size() == static_cast<size_t>(rows_) * layout_.variable + 1);
  ++rows_;
  fixed_.resize(fixed_.size() + layout_.stride);
  return fixed_.data() + fixed_.size() - layout_.stride;
}

void BlockBuilder::add_piece(std::span<const std::byte> bytes) {
  arena_.insert(arena_.end(), bytes.begin(), bytes.end());
  ends_.push_back(arena_.size());
}

BlockBuilder::Encoded BlockBuilder::encode() const {
  assert(ends_.size() == static_cast<size_t>(rows_) * layout_.variable + 1);
  Bytes plain = fixed_;
  if (layout_.variable > 0) {
    plain.resize(fixed_.size() + 8 * ends_.size());
    for (size_t i = 0; i < ends_.size(); ++i) put_number(plain.data() + fixed_.size() + 8 * i, ends_[i]);
    plain.insert(plain.end(), arena_.begin(), arena_.end());
  }
  Encoded block{.stored = {}, .bytes = plain.size()};
  if (level_ > 0 && plain.size() <= kMostCompressed) zstd_compress(plain, level_, block.stored);
  // A block that compression does not make smaller is read faster as it is.
  if (block.stored.empty() || block.stored.size() >= plain.size() - plain.size() / 16) block.stored = std::move(plain);
  block.hash = xxh3_64(block.stored);
  return block;
}

ShardWriter::ShardWriter(const std::string& path, const ShardLayout& layout) : path_(path), part_(path + ".part"), layout_(layout) {
  file_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) fail("cannot be created");
  Bytes header(kHeader);
  std::memcpy(header.data(), kMagic, kMagicBytes);
  put_number(header.data() + kMagicBytes, kVersion);
  write(header);
}

ShardWriter::~ShardWriter() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(part_.c_str());
}

void ShardWriter::fail(const char* what) const {
  throw Error(ErrorKind::resources, {.where = path_, .what = std::string(what) + ": " + std::strerror(errno)});
}

void ShardWriter::write(std::span<const std::byte> bytes) {
  at_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), std::min<size_t>(bytes.size(), 1 << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void ShardWriter::add(const BlockBuilder::Encoded& block) {
  static constexpr std::byte kZeros[kAlignment] = {};
  write({kZeros, (kAlignment - at_ % kAlignment) % kAlignment});
  const size_t before = table_.size();
  table_.resize(before + kEntry);
  const uint64_t numbers[] = {at_, block.stored.size(), block.bytes, block.hash};
  for (size_t i = 0; i < 4; ++i) put_number(table_.data() + before + 8 * i, numbers[i]);
  write(block.stored);
}

uint64_t ShardWriter::finish(int64_t records, const Json& about) {
  const std::string footer = Json(Json::Object{{"records", records},
                                               {"per_block", layout_.per_block},
                                               {"stride", static_cast<int64_t>(layout_.stride)},
                                               {"variable", static_cast<int64_t>(layout_.variable)},
                                               {"about", about}})
                                 .dump();
  Bytes end = table_;
  end.insert(end.end(), as_bytes(footer).begin(), as_bytes(footer).end());
  const uint64_t hash = xxh3_64(end);
  const uint64_t numbers[] = {at_, table_.size() / kEntry, at_ + table_.size(), footer.size(), hash};
  const size_t tail = end.size();
  end.resize(tail + kTail);
  for (size_t i = 0; i < 5; ++i) put_number(end.data() + tail + 8 * i, numbers[i]);
  std::memcpy(end.data() + tail + kTail - kMagicBytes, kMagic, kMagicBytes);
  write(end);
  if (::fsync(file_) != 0) fail("cannot be synced");
  if (::close(std::exchange(file_, -1)) != 0) fail("cannot be closed");
  if (::rename(part_.c_str(), path_.c_str()) != 0) fail("cannot be named");
  return hash;
}

}  // namespace perigee::records
