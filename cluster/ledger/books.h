// The coordinator's accounts: which rounds are committed with which hash, which examples are counted, skipped, or still to be done.
// Everything in it follows from the ledger's records; memory and ledger never say different things.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/ledger/ledger.h"
#include "cluster/ledger/ranges.h"
#include "cluster/protocol/message.h"

namespace perigee {

class Books {
 public:
  Books(LedgerStore& store, int64_t per_epoch, int64_t planned, ShardedOrder order = {});

  // Reads the ledger, or begins one with `job`. Records are as the store gives them; a torn tail has been cut off by the store.
  void load(const std::string& job);

  int64_t round() const { return round_; }  // committed; -1: the initial values
  uint64_t hash() const { return hash_; }   // of that result; 0: not known yet
  uint64_t generation() const { return generation_; }
  int64_t examples_done() const { return pool_.done(); }  // counted or skipped
  std::optional<uint64_t> hash_of(int64_t round) const;   // of one of the last rounds
  WorkerId highest_id() const { return highest_id_; }
  const std::vector<WorkerId>& last_members() const { return last_members_; }  // of the last round in the ledger
  bool possible(const Range& range) const;                                     // of this run at all
  LeasePool& pool() { return pool_; }
  bool all_done() const { return pool_.all_done(); }
  uint64_t first_unevaluated() const { return first_unevaluated_; }
  std::optional<uint64_t> epoch_due() const;  // complete, and its evaluation is not over yet

  void commit(uint64_t generation, int64_t round, uint64_t hash, std::vector<Share> shares);
  void skip(uint64_t generation, const Range& range, WorkerId id, const std::string& why);
  // With inner exchanges: `ranges` may have more or less than their share of the results.
  void inexact(uint64_t generation, std::vector<Range> ranges, WorkerId id, const std::string& why);
  void epoch_evaluated(uint64_t generation, uint64_t epoch);

  // Whether a result belongs to the line of parameters that goes through the committed one.
  bool on_line(int64_t round, uint64_t hash, const std::vector<LogEntry>& log) const;
  struct Adopted {
    int64_t completed = 0;  // rounds that only the log knew
    int64_t voided = 0;     // rounds of the ledger that no worker holds
    int64_t missing = 0;    // rounds that neither knows: what they counted cannot be told
  };
  // The truth is in the replicas: the ledger is made to say what a worker that holds this result says.
  Adopted adopt(uint64_t generation, int64_t round, uint64_t hash, const std::vector<LogEntry>& log);
  void set_hash(uint64_t hash);  // of the result held by the first worker that has made or loaded it

  // Everything written and on disk, as far as it can be; at most once per `interval_ns`. False: the store cannot be written now.
  bool sync(uint64_t now_ns, uint64_t interval_ns);
  int64_t synced() const { return synced_; }
  bool all_written() const { return unwritten_.empty(); }

 private:
  struct Mark {
    int64_t round;
    uint64_t hash;
  };
  void append(const LedgerRecord& record);
  bool flush();
  void count(const LedgerRecord& record);
  void rebuild(const std::vector<LedgerRecord>& records);
  void void_above(uint64_t generation, int64_t round);

  LedgerStore& store_;
  int64_t per_epoch_, planned_;
  ShardedOrder order_;
  LeasePool pool_;
  int64_t round_ = -1, synced_ = -1;
  uint64_t hash_ = 0, generation_ = 0, initial_hash_ = 0;
  WorkerId highest_id_ = 0;
  std::vector<WorkerId> last_members_;
  std::deque<Mark> recent_;       // hashes of the last rounds
  std::set<uint64_t> evaluated_;  // epochs at or above first_unevaluated_
  uint64_t first_unevaluated_ = 0;
  std::deque<LedgerRecord> unwritten_;
  uint64_t last_sync_ns_ = 0;
  bool dirty_ = false, writable_ = true;
};

}  // namespace perigee
