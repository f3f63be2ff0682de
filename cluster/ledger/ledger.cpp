#include "cluster/ledger/ledger.h"

#include <cassert>
#include <cstring>
#include <limits>

#include "cluster/planted.h"
#include "src/core/error.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

constexpr size_t kFrame = 12;  // hash and length
constexpr int64_t kMaxPosition = std::numeric_limits<int64_t>::max() / 4;

// The rest of a record after its kind, generation and round.
enum Field : uint8_t { kHash = 1, kEpoch = 2, kShares = 4, kText = 8 };
// Expected values of a share, which are not written.
enum Regular : uint8_t { kNextId = 1, kOneContinues = 2, kSameCount = 4, kExamplesAreCounts = 8 };

uint64_t zigzag(int64_t value) { return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63); }
int64_t unzigzag(uint64_t value) { return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1); }

class Writer {
 public:
  void byte(uint8_t value) { out.push_back(static_cast<std::byte>(value)); }
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<uint8_t>(value | 0x80));
    byte(static_cast<uint8_t>(value));
  }
  void word(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) byte(static_cast<uint8_t>(value >> (8 * i)));
  }
  std::vector<std::byte> out;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && at_ == bytes_.size(); }
  uint8_t byte() {
    if (at_ >= bytes_.size()) return ok_ = false, 0;
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && ok_; shift += 7) {
      const uint8_t next = byte();
      value |= static_cast<uint64_t>(next & 0x7f) << shift;
      if (next < 0x80) return value;
    }
    return ok_ = false, 0;
  }
  uint64_t word(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(byte()) << (8 * i);
    return value;
  }
  // A position or a count: small enough that two of them can be added.
  int64_t position() {
    const uint64_t value = number();
    if (value > static_cast<uint64_t>(kMaxPosition)) return ok_ = false, 0;
    return static_cast<int64_t>(value);
  }
  size_t count(size_t most) {
    const uint64_t value = number();
    if (value > most) return ok_ = false, 0;
    return static_cast<size_t>(value);
  }
  std::string text(size_t length) {
    if (length > bytes_.size() - at_) return ok_ = false, std::string();
    const std::string value(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
    at_ += length;
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

int64_t examples_in(const std::vector<Range>& ranges) {
  int64_t sum = 0;
  for (const Range& range : ranges) sum += range.count;
  return sum;
}

void write_shares(Writer& out, const std::vector<Share>& shares) {
  out.number(shares.size());
  WorkerId id = 0;
  Range last;
  for (const Share& share : shares) {
    uint8_t regular = 0;
    const bool continues =
        share.ranges.size() == 1 && share.ranges[0].epoch == last.epoch && share.ranges[0].begin == last.begin + last.count;
    if (share.id == id + 1) regular |= kNextId;
    if (continues) regular |= kOneContinues;
    if (continues && share.ranges[0].count == last.count) regular |= kSameCount;
    if (share.examples == examples_in(share.ranges)) regular |= kExamplesAreCounts;
    out.byte(regular);
    if (!(regular & kNextId)) out.number(share.id);
    if (!(regular & kOneContinues)) out.number(share.ranges.size());
    for (const Range& range : share.ranges) {
      assert(range.begin >= 0 && range.count >= 0 && range.begin <= kMaxPosition && range.count <= kMaxPosition);
      if (!(regular & kOneContinues)) out.number(range.epoch), out.number(static_cast<uint64_t>(range.begin));
      if (!(regular & kSameCount)) out.number(static_cast<uint64_t>(range.count));
      last = range;
    }
    if (!(regular & kExamplesAreCounts)) out.number(zigzag(share.examples));
    id = share.id;
  }
}

bool read_shares(Reader& in, std::vector<Share>* shares) {
  const size_t count = in.count(kMaxWorkers);
  WorkerId id = 0;
  Range last;
  size_t ranges_left = kMaxRanges;
  for (size_t i = 0; i < count && in.ok(); ++i) {
    Share share;
    const uint8_t regular = in.byte();
    const uint64_t given = regular & kNextId ? uint64_t{id} + 1 : in.number();
    if (given > std::numeric_limits<WorkerId>::max()) return false;
    share.id = static_cast<WorkerId>(given);
    const size_t ranges = regular & kOneContinues ? 1 : in.count(ranges_left);
    if (ranges > ranges_left) return false;
    ranges_left -= ranges;
    for (size_t r = 0; r < ranges && in.ok(); ++r) {
      Range range{last.epoch, last.begin + last.count, last.count};
      if (!(regular & kOneContinues)) range.epoch = in.number(), range.begin = in.position();
      if (!(regular & kSameCount)) range.count = in.position();
      if (range.begin > kMaxPosition) return false;
      share.ranges.push_back(last = range);
    }
    share.examples = regular & kExamplesAreCounts ? examples_in(share.ranges) : unzigzag(in.number());
    id = share.id;
    shares->push_back(std::move(share));
  }
  return in.ok();
}

bool read_payload(std::span<const std::byte> payload, LedgerRecord* record) {
  Reader in(payload);
  const uint8_t kind = in.byte(), fields = in.byte();
  if (kind < static_cast<uint8_t>(LedgerRecord::Kind::job) || kind > static_cast<uint8_t>(LedgerRecord::Kind::inexact)) return false;
  *record = {};
  record->kind = static_cast<LedgerRecord::Kind>(kind);
  record->generation = in.number();
  record->round = unzigzag(in.number());
  if (fields & kHash) record->hash = in.word(8);
  if (fields & kEpoch) record->epoch = in.number();
  if ((fields & kShares) && !read_shares(in, &record->shares)) return false;
  if (fields & kText) record->text = in.text(in.count(kMaxRecordBytes));
  return in.at_end();
}

// The length of the frame that `bytes` begin with, if its hash is right; else 0.
size_t whole_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrame) return 0;
  Reader in(bytes);
  const uint64_t hash = in.word(8), length = in.word(4);
  if (length == 0 || length > kMaxRecordBytes || length > bytes.size() - kFrame) return 0;
  const auto size = static_cast<size_t>(length);
  return planted(Bug::hash_unchecked) || xxh3_64(bytes.subspan(8, 4 + size)) == hash ? kFrame + size : 0;
}

}  // namespace

std::vector<std::byte> encode_record(const LedgerRecord& record) {
  Writer out;
  out.out.resize(kFrame);  // filled in at the end
  uint8_t fields = 0;
  if (record.hash != 0) fields |= kHash;
  if (record.epoch != 0) fields |= kEpoch;
  if (!record.shares.empty()) fields |= kShares;
  if (!record.text.empty()) fields |= kText;
  out.byte(static_cast<uint8_t>(record.kind)), out.byte(fields);
  out.number(record.generation), out.number(zigzag(record.round));
  if (fields & kHash) out.word(record.hash, 8);
  if (fields & kEpoch) out.number(record.epoch);
  if (fields & kShares) write_shares(out, record.shares);
  if (fields & kText) {
    out.number(record.text.size());
    for (const char c : record.text) out.byte(static_cast<uint8_t>(c));
  }
  const size_t length = out.out.size() - kFrame;
  assert(length <= kMaxRecordBytes);
  for (int i = 0; i < 4; ++i) out.out[8 + static_cast<size_t>(i)] = static_cast<std::byte>(length >> (8 * i));
  const uint64_t hash = xxh3_64(std::span(out.out).subspan(8));
  for (int i = 0; i < 8; ++i) out.out[static_cast<size_t>(i)] = static_cast<std::byte>(hash >> (8 * i));
  return std::move(out.out);
}

size_t decode_record(std::span<const std::byte> bytes, LedgerRecord* record) {
  const size_t length = whole_frame(bytes);
  return length > 0 && read_payload(bytes.subspan(kFrame, length - kFrame), record) ? length : 0;
}

std::vector<LedgerRecord> decode_records(std::span<const std::byte> bytes, size_t* bytes_read) {
  std::vector<LedgerRecord> records;
  LedgerRecord record;
  size_t at = 0;
  while (const size_t length = decode_record(bytes.subspan(at), &record)) at += length, records.push_back(std::move(record));
  *bytes_read = at;
  return records;
}

std::optional<uint64_t> counted_hash(std::span<const LedgerRecord> records, int64_t round) {
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record->kind == LedgerRecord::Kind::voided && record->round < round) return std::nullopt;
    if (record->kind == LedgerRecord::Kind::round && record->round == round) return record->hash;
  }
  return std::nullopt;
}

size_t sound_bytes(std::span<const std::byte> bytes, const std::string& where, size_t offset) {
  size_t sound = 0;
  LedgerRecord record;
  while (const size_t length = decode_record(bytes.subspan(sound), &record)) sound += length;
  for (size_t at = sound; at + kFrame < bytes.size(); ++at)
    if (whole_frame(bytes.subspan(at)) > 0)
      throw Error(ErrorKind::data, {.where = where,
                                    .what = "the ledger is damaged at byte " + std::to_string(offset + sound),
                                    .got = "whole records again from byte " + std::to_string(offset + at),
                                    .expected = "records without a hole",
                                    .hint = "restore the file from a copy, or continue from a checkpoint in a new run folder"});
  return sound;
}

}  // namespace perigee
