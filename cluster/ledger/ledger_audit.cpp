#include <algorithm>
#include <cassert>

#include "cluster/ledger/ledger.h"

namespace perigee {
namespace {

int64_t integer_of(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value && value->is_int() && value->as_int() > 0 ? value->as_int() : 0;
}

}  // namespace

void LedgerAuditor::account(const LedgerRecord& record, bool skipped) {
  Interval last{.skipped = skipped};
  const auto flush = [&] {
    if (last.count > 0) intervals_.push_back(last);
  };
  // The shares of one round usually follow each other: one interval.
  for (const Share& share : record.shares)
    for (const Range& range : share.ranges) {
      if (last.count > 0 && range.epoch == last.epoch && range.begin == last.begin + last.count) {
        last.count += range.count;
        continue;
      }
      flush();
      last = {.epoch = range.epoch, .begin = range.begin, .count = range.count, .round = record.round, .skipped = skipped};
    }
  flush();
}

void LedgerAuditor::add(const LedgerRecord& record) {
  generations_ = std::max(generations_, record.generation);
  switch (record.kind) {
    case LedgerRecord::Kind::job: {
      const Json job = Json::parse(record.text, "ledger: job record");
      examples_ = integer_of(job, "examples");
      planned_ = integer_of(job, "planned");
      break;
    }
    case LedgerRecord::Kind::round:
      rounds_.push_back({record.round, record.generation});
      account(record, false);
      break;
    case LedgerRecord::Kind::skipped: account(record, true); break;
    case LedgerRecord::Kind::voided:
      voided_ += static_cast<int64_t>(std::erase_if(rounds_, [&](const Round& r) { return r.round > record.round; }));
      std::erase_if(intervals_, [&](const Interval& i) { return i.round > record.round; });
      std::erase_if(inexact_, [&](const auto& i) { return i.first > record.round; });
      std::erase_if(evaluated_, [&](const auto& e) { return e.first > record.round; });
      break;
    case LedgerRecord::Kind::inexact:
      for (const Share& share : record.shares) inexact_.emplace_back(record.round, share.examples);
      break;
    case LedgerRecord::Kind::epoch_evaluated: evaluated_.emplace_back(record.round, record.epoch); break;
  }
}

LedgerAudit LedgerAuditor::result() const {
  LedgerAudit found{.examples = examples_, .planned = planned_, .rounds = static_cast<int64_t>(rounds_.size())};
  for (const auto& [round, examples] : inexact_) found.inexact += examples;
  found.voided = voided_, found.generations = generations_;
  for (size_t i = 1; i < rounds_.size(); ++i)
    found.gaps += rounds_[i].round != rounds_[i - 1].round + 1 || rounds_[i].generation < rounds_[i - 1].generation;

  std::vector<Interval> sorted = intervals_;
  std::sort(sorted.begin(), sorted.end(), [](const Interval& a, const Interval& b) {
    return a.epoch != b.epoch ? a.epoch < b.epoch : a.begin != b.begin ? a.begin < b.begin : a.skipped < b.skipped;
  });
  const auto size_of = [&](uint64_t epoch) {  // of the last epoch, only what is planned
    const auto begin = static_cast<int64_t>(epoch) * examples_;
    return planned_ > 0 ? std::clamp<int64_t>(planned_ - begin, 0, examples_) : examples_;
  };
  uint64_t complete = 0;  // epochs below this one are
  for (const auto& [round, epoch] : evaluated_) complete = std::max(complete, epoch + 1);
  int64_t covered_in_complete = 0;
  std::vector<std::pair<uint64_t, int64_t>> covered;  // epoch, positions accounted for
  int64_t end = 0;                                    // of what is covered of the epoch so far
  for (const Interval& interval : sorted) {
    if (covered.empty() || covered.back().first != interval.epoch) covered.emplace_back(interval.epoch, 0), end = 0;
    const int64_t stop = std::min(interval.begin + interval.count, size_of(interval.epoch));
    const int64_t fresh = std::max<int64_t>(0, stop - std::max(end, interval.begin));
    (interval.skipped ? found.skipped : found.counted) += fresh;
    found.duplicates += interval.count - fresh;
    covered.back().second += fresh;
    end = std::max(end, stop);
  }
  for (const auto& [epoch, positions] : covered)
    if (positions > 0 && positions == size_of(epoch)) complete = std::max(complete, epoch + 1);
  int64_t expected = 0;
  for (uint64_t epoch = 0; epoch < complete; ++epoch) expected += size_of(epoch);
  for (const auto& [epoch, positions] : covered)
    if (epoch < complete) covered_in_complete += positions;
  found.epochs_complete = complete;
  found.missing = expected - covered_in_complete;
  assert(found.missing >= 0);
  return found;
}

LedgerAudit audit(std::span<const LedgerRecord> records) {
  LedgerAuditor auditor;
  for (const LedgerRecord& record : records) auditor.add(record);
  return auditor.result();
}

LedgerReach reach_of(std::span<const LedgerRecord> records) {
  LedgerReach reach;
  for (const LedgerRecord& record : records)
    if (record.kind == LedgerRecord::Kind::job) reach.examples = integer_of(Json::parse(record.text, "ledger: job record"), "examples");
  int64_t limit = INT64_MAX;  // rounds above this one are void
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record->kind == LedgerRecord::Kind::voided) limit = std::min(limit, record->round);
    const bool accounts = record->kind == LedgerRecord::Kind::round || record->kind == LedgerRecord::Kind::skipped;
    if (!accounts || record->round > limit) continue;
    for (const Share& share : record->shares)
      for (const Range& range : share.ranges)
        reach.end = std::max(reach.end, static_cast<int64_t>(range.epoch) * reach.examples + range.begin + range.count);
  }
  return reach;
}

Json LedgerAudit::to_json() const {
  Json json = Json::object();
  json.set("examples", examples), json.set("planned", planned), json.set("epochs_complete", static_cast<int64_t>(epochs_complete));
  json.set("counted", counted), json.set("skipped", skipped), json.set("duplicates", duplicates), json.set("missing", missing);
  json.set("rounds", rounds), json.set("voided", voided), json.set("inexact", inexact), json.set("gaps", gaps),
      json.set("generations", static_cast<int64_t>(generations));
  return json;
}

}  // namespace perigee
