// Rounds that all workers make together: work, contributions, commits, evaluation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/protocol/frame.h"
#include "cluster/protocol/records.h"

namespace perigee {

// The measured plan: more work, in whole batches, to be done in this order. Empty and `last`: there is no more.
struct Lease {
  static constexpr MessageType kType = MessageType::lease;
  std::vector<Range> ranges;
  bool last = false;
  int64_t steps = 0;  // of this worker's next orders; 0: as the policy says
  template <class F>
  void fields(F& f) {
    f(ranges), f(last), f(steps);
  }
};

// Announced rounds only: the contribution to header.round is staged.
struct Ready {
  static constexpr MessageType kType = MessageType::ready;
  int64_t base = -1;  // the result that the local work started from; staleness = header.round - 1 - base
  int64_t examples = 0, steps = 0;
  bool finite = true;         // false: quarantined, takes part with weight 0
  std::vector<Range> ranges;  // what was trained
  Figures figures;
  Norms norms;
  template <class F>
  void fields(F& f) {
    f(base), f(examples), f(steps), f(finite), f(ranges), f(figures), f(norms);
  }
};

// Announced rounds: who takes part in header.round, with what weight. It is the round's ledger record, before it is committed.
struct Begin {
  static constexpr MessageType kType = MessageType::begin;
  std::vector<Share> shares;   // in the order of the ranks
  int64_t examples_after = 0;  // committed once this round is
  bool evaluate = false;       // an epoch is complete with it: wait for Evaluate before training on
  bool last = false;
  template <class F>
  void fields(F& f) {
    f(shares), f(examples_after), f(evaluate), f(last);
  }
};

// The result of header.round is applied and held.
struct Done {
  static constexpr MessageType kType = MessageType::done;
  uint64_t hash = 0;
  int64_t examples = 0;            // of its own contribution (synchronous steps)
  std::vector<Range> quarantined;  // synchronous steps: own ranges that were left out because they gave NaN or infinity
  Figures figures;
  template <class F>
  void fields(F& f) {
    f(hash), f(examples), f(quarantined), f(figures);
  }
};

struct Commit {
  static constexpr MessageType kType = MessageType::commit;
  uint64_t hash = 0;
  int64_t synced = -1;  // the ledger is on disk up to this round: older logs can be forgotten
  template <class F>
  void fields(F& f) {
    f(hash), f(synced);
  }
};

// Evaluate positions [begin, end) of a part of the data with the result held. An empty part: evaluation is over, train on.
struct Evaluate {
  static constexpr MessageType kType = MessageType::evaluate;
  uint64_t request = 0;
  std::string part;
  int64_t begin = 0, end = -1;
  template <class F>
  void fields(F& f) {
    f(request), f(part), f(begin), f(end);
  }
};

struct Evaluated {
  static constexpr MessageType kType = MessageType::evaluated;
  uint64_t request = 0;
  int64_t begin = 0, end = 0;
  std::string state;  // JSON: the partial result, to be merged
  template <class F>
  void fields(F& f) {
    f(request), f(begin), f(end), f.long_text(state);
  }
};

#define PERIGEE_ROUND_MESSAGES(X) X(Lease) X(Ready) X(Begin) X(Done) X(Commit) X(Evaluate) X(Evaluated)

}  // namespace perigee
