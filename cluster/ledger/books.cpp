#include "cluster/ledger/books.h"

#include <algorithm>
#include <cassert>

#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr size_t kRecent = 4096;  // rounds whose hash is remembered: more than any log holds
constexpr size_t kMaxUnwritten = 65536;

}  // namespace

Books::Books(LedgerStore& store, int64_t per_epoch, int64_t planned, ShardedOrder order)
    : store_(store), per_epoch_(per_epoch), planned_(planned), order_(order), pool_(per_epoch, planned, order) {
  assert(per_epoch > 0 && planned >= 0);
}

void Books::load(const std::string& job) {
  size_t bytes_read = 0;
  const std::vector<std::byte> bytes = store_.read();
  const std::vector<LedgerRecord> records = decode_records(bytes, &bytes_read);
  rebuild(records);
  if (store_.sync()) synced_ = round_;  // what was read may not be on disk yet
  // The job may ask for more than it did when the run began: the last word counts.
  const auto told = std::find_if(records.rbegin(), records.rend(), [](const auto& each) { return each.kind == LedgerRecord::Kind::job; });
  if (told == records.rend() || told->text != job) append({.kind = LedgerRecord::Kind::job, .text = job});
}

void Books::rebuild(const std::vector<LedgerRecord>& records) {
  // A voided record ends the rounds above its own, whatever they were called before: what counts is decided from the end.
  std::vector<bool> counts(records.size(), true);
  int64_t limit = INT64_MAX;
  for (size_t i = records.size(); i-- > 0;) {
    if (records[i].kind == LedgerRecord::Kind::voided) limit = std::min(limit, records[i].round);
    else if (records[i].kind != LedgerRecord::Kind::job) counts[i] = records[i].round <= limit;
  }
  pool_ = LeasePool(per_epoch_, planned_, order_);
  round_ = -1;
  hash_ = initial_hash_;
  recent_.clear();
  evaluated_.clear();
  first_unevaluated_ = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    generation_ = std::max(generation_, records[i].generation);
    if (counts[i]) count(records[i]);
  }
}

void Books::count(const LedgerRecord& record) {
  switch (record.kind) {
    case LedgerRecord::Kind::round:
      round_ = record.round;
      hash_ = record.hash;
      recent_.push_back({record.round, record.hash});
      if (recent_.size() > kRecent) recent_.pop_front();
      last_members_.clear();
      for (const Share& share : record.shares) {
        highest_id_ = std::max(highest_id_, share.id);
        if (share.id != 0) last_members_.push_back(share.id);
        for (const Range& range : share.ranges) pool_.mark_done(range);
      }
      return;
    case LedgerRecord::Kind::skipped:
      for (const Share& share : record.shares)
        for (const Range& range : share.ranges) pool_.mark_done(range);
      return;
    case LedgerRecord::Kind::epoch_evaluated:
      evaluated_.insert(record.epoch);
      while (evaluated_.erase(first_unevaluated_) > 0) ++first_unevaluated_;
      return;
    case LedgerRecord::Kind::inexact:
    case LedgerRecord::Kind::voided:
    case LedgerRecord::Kind::job: return;
  }
}

void Books::append(const LedgerRecord& record) {
  assert(unwritten_.size() < kMaxUnwritten);
  unwritten_.push_back(record);
  dirty_ = true;
  flush();
}

bool Books::flush() {
  while (!unwritten_.empty()) {
    if (!store_.append(encode_record(unwritten_.front()))) return false;
    unwritten_.pop_front();
  }
  return true;
}

bool Books::sync(uint64_t now_ns, uint64_t interval_ns) {
  if (!dirty_ || now_ns - last_sync_ns_ < interval_ns) return writable_;
  last_sync_ns_ = now_ns;
  writable_ = flush() && store_.sync();
  if (!writable_) return false;
  dirty_ = false;
  synced_ = round_;
  return true;
}

void Books::commit(uint64_t generation, int64_t round, uint64_t hash, std::vector<Share> shares) {
  assert(round == round_ + 1 && generation >= generation_);
  LedgerRecord record{
      .kind = LedgerRecord::Kind::round, .generation = generation, .round = round, .hash = hash, .shares = std::move(shares)};
  generation_ = generation;
  count(record);
  append(record);
}

void Books::skip(uint64_t generation, const Range& range, WorkerId id, const std::string& why) {
  LedgerRecord record{.kind = LedgerRecord::Kind::skipped, .generation = generation, .round = round_, .text = why};
  record.shares.push_back({.id = id, .examples = range.count, .ranges = {range}});
  count(record);
  append(record);
}

void Books::inexact(uint64_t generation, std::vector<Range> ranges, WorkerId id, const std::string& why) {
  LedgerRecord record{.kind = LedgerRecord::Kind::inexact, .generation = generation, .round = round_, .text = why};
  const int64_t examples = examples_of(ranges);
  record.shares.push_back({.id = id, .examples = examples, .ranges = std::move(ranges)});
  append(record);
}

void Books::epoch_evaluated(uint64_t generation, uint64_t epoch) {
  LedgerRecord record{.kind = LedgerRecord::Kind::epoch_evaluated, .generation = generation, .round = round_, .epoch = epoch};
  count(record);
  append(record);
}

bool Books::possible(const Range& range) const {
  if (range.begin < 0 || range.count <= 0 || range.begin > per_epoch_ || range.count > per_epoch_ - range.begin) return false;
  if (planned_ == 0) return range.epoch < (uint64_t{1} << 30);
  return range.epoch <= static_cast<uint64_t>(planned_ / per_epoch_) &&
         static_cast<int64_t>(range.epoch) * per_epoch_ + range.begin + range.count <= planned_;
}

std::optional<uint64_t> Books::epoch_due() const {
  if (pool_.epoch_done(first_unevaluated_)) return first_unevaluated_;
  return std::nullopt;
}

std::optional<uint64_t> Books::hash_of(int64_t round) const {
  if (round == round_ && hash_ != 0) return hash_;
  if (recent_.empty() || round < recent_.front().round || round > recent_.back().round) return std::nullopt;
  const Mark& mark = recent_[static_cast<size_t>(round - recent_.front().round)];
  if (mark.round != round) return std::nullopt;  // a ledger with a gap
  return mark.hash;
}

bool Books::on_line(int64_t round, uint64_t hash, const std::vector<LogEntry>& log) const {
  if (round < round_) return true;  // it will heal, whatever it is
  if (round == round_) return hash_ == 0 || hash == hash_;
  for (const LogEntry& entry : log)
    if (entry.round == round_) return hash_ == 0 || entry.hash == hash_;
  // Rounds that became void while it was away, whose beginning it has forgotten, as it was in the ledger: they are made again already.
  return round_ < 0 && !log.empty() && log.front().round <= 0;
}

void Books::void_above(uint64_t generation, int64_t round) {
  if (!planted(Bug::void_not_written)) append({.kind = LedgerRecord::Kind::voided, .generation = generation, .round = round});
  size_t bytes_read = 0;
  const std::vector<std::byte> bytes = store_.read();
  std::vector<LedgerRecord> records = decode_records(bytes, &bytes_read);
  records.insert(records.end(), unwritten_.begin(), unwritten_.end());
  rebuild(records);
  synced_ = std::min(synced_, round_);
}

Books::Adopted Books::adopt(uint64_t generation, int64_t round, uint64_t hash, const std::vector<LogEntry>& log) {
  Adopted adopted;
  int64_t common = std::min(round_, round);  // the ledger and the log agree up to here
  for (const LogEntry& entry : log) {
    const auto known = hash_of(entry.round);
    if (!planted(Bug::line_ignored) && entry.round <= common && known && *known != entry.hash) common = entry.round - 1;
  }
  if (common == round_ && round == round_ && hash_ != 0 && hash != 0 && hash_ != hash) common = round_ - 1;
  if (common < round_) {
    adopted.voided = round_ - common;
    void_above(generation, common);
  }
  for (const LogEntry& entry : log) {
    if (entry.round <= round_ || entry.round > round || planted(Bug::log_not_adopted)) continue;
    adopted.missing += entry.round - round_ - 1;
    adopted.completed += 1;
    // Which worker trained which of them is no longer known.
    LedgerRecord record{
        .kind = LedgerRecord::Kind::round, .generation = std::max(generation_, entry.generation), .round = entry.round, .hash = entry.hash};
    record.shares.push_back({.id = 0, .examples = examples_of(entry.ranges), .ranges = entry.ranges});
    count(record);
    append(record);
  }
  adopted.missing += round - round_;
  generation_ = std::max(generation_, generation);
  if (hash != 0 || round_ != round) hash_ = hash;  // a checkpoint of a round that the ledger knows: its hash is the ledger's
  round_ = round;
  return adopted;
}

void Books::set_hash(uint64_t hash) {
  if (round_ < 0) initial_hash_ = hash;
  hash_ = hash;
}

}  // namespace perigee
