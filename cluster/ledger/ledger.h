// The proof that every sample counts exactly once per epoch: an append-only file of records, one per committed round, and its check.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/protocol/message.h"
#include "src/core/json.h"
#include "src/data/sharded_order.h"

namespace perigee {

struct LedgerRecord {
  enum class Kind : uint8_t { job = 1, round = 2, skipped = 3, voided = 4, epoch_evaluated = 5, inexact = 6 };
  Kind kind = Kind::round;
  uint64_t generation = 0;
  int64_t round = -1;  // skipped, epoch_evaluated: the last committed one; voided: records of rounds above this one no longer count
  uint64_t hash = 0;   // of the parameters after the round
  uint64_t epoch = 0;  // epoch_evaluated: which
  // Who trained what; skipped: what was given up; inexact: what may have more or less than its share of the results, because it was averaged
  // inside a group and then lost, or not averaged by all of the group. It counts once all the same, in some round.
  std::vector<Share> shares;
  std::string text;  // skipped, inexact: why; job: {"examples": n, "planned": m, "shuffle": ..., "accounting": "exact" or "bounded"}
  bool operator==(const LedgerRecord&) const = default;
};

// Where records go. The real one is a file; the simulator's loses what was not synced.
class LedgerStore {
 public:
  virtual ~LedgerStore() = default;
  // False: it could not be written (disk full); the coordinator keeps the record, tells, and tries again. `record` has its own length and hash.
  virtual bool append(std::span<const std::byte> record) = 0;
  virtual bool sync() = 0;
  virtual std::vector<std::byte> read() = 0;
};

inline constexpr size_t kMaxRecordBytes = size_t{4} << 20;

// XXH3-64 of the rest, length of the rest, then a few bytes: ranges that continue where the one before ended cost one or two.
std::vector<std::byte> encode_record(const LedgerRecord& record);
// The record that `bytes` begin with: its length in bytes, or 0 when it is torn or damaged.
size_t decode_record(std::span<const std::byte> bytes, LedgerRecord* record);
// The hash of the parameters after `round`, if it counts: no later record has made it void.
std::optional<uint64_t> counted_hash(std::span<const LedgerRecord> records, int64_t round);
// How far a run has come: the examples of an epoch that its first record tells (0: it has none), and where the last position that counts ends.
struct LedgerReach {
  int64_t examples = 0, end = 0;
};
LedgerReach reach_of(std::span<const LedgerRecord> records);
// Whole records up to the first that is torn or damaged; `bytes_read` is where that one starts.
std::vector<LedgerRecord> decode_records(std::span<const std::byte> bytes, size_t* bytes_read);
// How many of the bytes are whole records. What follows them is a torn tail, that is a write which did not finish; if whole records
// follow later, it is damage: Error(data) naming the byte, counted from `offset`.
size_t sound_bytes(std::span<const std::byte> bytes, const std::string& where, size_t offset = 0);

// The facts that the records prove.
struct LedgerAudit {
  int64_t examples = 0, planned = 0;  // of an epoch; of the run, 0: endless
  uint64_t epochs_complete = 0;       // epochs that are evaluated, or of which every position is accounted for, and all before them
  int64_t counted = 0, skipped = 0;   // positions in committed rounds; given up
  int64_t duplicates = 0;             // positions accounted for more than once, or that no epoch has
  int64_t missing = 0;                // positions of complete epochs that are not accounted for
  int64_t rounds = 0, voided = 0;     // that count; that no longer do
  int64_t inexact = 0;                // positions whose share of the results is not known exactly
  int64_t gaps = 0;                   // rounds that do not follow the one before them, or of an older generation than that
  uint64_t generations = 0;           // the highest
  bool sound() const { return duplicates == 0 && missing == 0 && gaps == 0; }
  Json to_json() const;
};

// The audit of records that come one by one, so that a long run's ledger need not be in memory as records.
class LedgerAuditor {
 public:
  void add(const LedgerRecord& record);
  LedgerAudit result() const;

 private:
  struct Interval {
    uint64_t epoch;
    int64_t begin, count, round;
    bool skipped;
  };
  struct Round {
    int64_t round;
    uint64_t generation;
  };
  void account(const LedgerRecord& record, bool skipped);

  int64_t examples_ = 0, planned_ = 0, voided_ = 0;
  uint64_t generations_ = 0;
  std::vector<Interval> intervals_;                      // in the order of their records
  std::vector<Round> rounds_;                            // that count
  std::vector<std::pair<int64_t, uint64_t>> evaluated_;  // round, epoch
  std::vector<std::pair<int64_t, int64_t>> inexact_;     // round, positions
};

LedgerAudit audit(std::span<const LedgerRecord> records);

// Which positions of which epochs are still to be done; what is leased is out of it. Each operation takes O(log n) of the number of
// separate ranges that are returned or done, which is small: neighbours are joined.
class LeasePool {
 public:
  LeasePool() = default;
  LeasePool(int64_t examples_per_epoch, int64_t planned_examples, ShardedOrder order = {});  // planned 0: endless
  // At most `count` positions, in one range, oldest first, never across an epoch's border. count 0: there is none left.
  Range take(int64_t count);
  // Likewise, of one of the shards [first, last), less than an epoch ahead of the oldest position of all, so that none runs ahead of the
  // others.
  Range take_of(int64_t first, int64_t last, int64_t count);
  void put_back(const Range& range);  // what of it is done stays done
  // Marks a committed (or skipped) range; when a ledger is read again, ranges are marked without having been taken. How many of its
  // positions were not done before: all of them in a sound run.
  int64_t mark_done(const Range& range);
  // Takes exactly these, if every position is still to be done and unleased; else false and nothing is taken.
  bool claim(const std::vector<Range>& ranges);
  bool all_done() const;
  bool epoch_done(uint64_t epoch) const;
  uint64_t first_open_epoch() const;
  int64_t done() const { return done_; }
  bool all_taken() const { return open_.empty() && planned_ > 0 && frontier_ == planned_; }
  // Positions neither done nor leased below the frontier, oldest first; and the frontier: everything from there on was never touched.
  std::vector<Range> returned() const;
  Range frontier() const { return size_ > 0 ? at(frontier_, 0) : Range{}; }

 private:
  using Intervals = std::map<int64_t, int64_t>;  // begin -> end, disjoint, neighbours joined; positions count on through the epochs
  static void insert(Intervals& set, int64_t begin, int64_t end);
  static void erase(Intervals& set, int64_t begin, int64_t end);
  void lease(int64_t begin, int64_t end);  // unleased positions
  int64_t next_of(int64_t first, int64_t last, int64_t begin, int64_t end) const;
  Range at(int64_t position, int64_t count) const { return {static_cast<uint64_t>(position / size_), position % size_, count}; }
  std::pair<int64_t, int64_t> span_of(const Range& range) const;

  int64_t size_ = 0, planned_ = 0, done_ = 0, frontier_ = 0;
  ShardedOrder order_;
  Intervals open_;       // below the frontier: returned, or passed over
  Intervals completed_;  // done
};

}  // namespace perigee
