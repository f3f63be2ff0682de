// Rounds of a parameter server: what workers push and pull, and what the server tells the coordinator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/protocol/frame.h"
#include "cluster/protocol/records.h"

namespace perigee {

// Served rounds, from the server: header.round is made, of what these workers have pushed.
struct Served {
  static constexpr MessageType kType = MessageType::served;
  uint64_t hash = 0;               // of the result
  std::vector<Share> shares;       // in the order of their arrival
  std::vector<int64_t> staleness;  // of each: rounds that it did not know of
  uint64_t discarded = 0;          // contributions that were too stale, since the round before
  int64_t workers = 0;             // that trained
  int64_t examples_after = 0;      // in the result
  Figures figures;
  template <class F>
  void fields(F& f) {
    f(hash), f(shares), f(staleness), f(discarded), f(workers), f(examples_after), f(figures);
  }
};

// To the server: what this worker has trained since it was at `base`. The bytes (payload, then what is added up beside it) follow as Image
// frames with the same request. `bytes` 0: there is nothing, it only wants the parameters; or, with `idle`, not even those.
struct Push {
  static constexpr MessageType kType = MessageType::push;
  uint64_t request = 0;  // the worker's number for it, each larger than the one before
  int64_t base = -1;     // the result that it trained from
  uint64_t counted = 0;  // contributions of its that were merged since it began afresh
  bool idle = false;
  uint64_t bytes = 0, payload = 0;  // in all; of them the payload's
  int64_t examples = 0, steps = 0;
  int64_t examples_before = 0, examples_per_step = 0;  // of its training order
  std::vector<Range> ranges;                           // one per step, in order
  Figures figures;
  uint32_t threads = 1;
  std::string isa;
  template <class F>
  void fields(F& f) {
    f(request), f(base), f(counted), f(idle), f(bytes), f(payload), f(examples), f(steps), f(examples_before), f(examples_per_step);
    f(ranges), f(figures), f(threads), f(isa);
  }
};

// The server's answer; Image frames with that request follow: parameters and states, or what the server's parameters have moved by.
struct Pulled {
  static constexpr MessageType kType = MessageType::pulled;
  uint64_t request = 0;
  int64_t round = -1;  // of the result
  uint64_t hash = 0;
  int64_t examples_after = 0;  // that are in it
  bool counted = false;        // what was pushed is in it; else it was too stale, or nothing
  bool change = false;         // the body is a change
  template <class F>
  void fields(F& f) {
    f(request), f(round), f(hash), f(examples_after), f(counted), f(change);
  }
};

// To a server that holds header.round: make these rounds, which follow it, again, of what their workers have kept. -> CaughtUp at `target`
struct Redo {
  static constexpr MessageType kType = MessageType::redo;
  int64_t target = 0;             // the last of all; more messages bring those that are not here
  std::vector<RedoRound> rounds;  // one after the other
  std::string settings;           // as StartEpoch has them
  template <class F>
  void fields(F& f) {
    f(target), f(rounds), f(settings);
  }
};

// To workers: there is an image of that round's result, and what was pushed for it and those before is needed no more.
struct Imaged {
  static constexpr MessageType kType = MessageType::imaged;
  int64_t round = -1;
  template <class F>
  void fields(F& f) {
    f(round);
  }
};

// From a server: once more what was pushed of these ranges. -> Resent; its bytes follow as Image frames with that request.
struct Resend {
  static constexpr MessageType kType = MessageType::resend;
  uint64_t request = 0;
  std::vector<Range> ranges;  // joined
  template <class F>
  void fields(F& f) {
    f(request), f(ranges);
  }
};

struct Resent {
  static constexpr MessageType kType = MessageType::resent;
  uint64_t request = 0;
  bool kept = false;  // false: it is gone
  Push push;
  template <class F>
  void fields(F& f) {
    f(request), f(kept), f(push);
  }
};

#define PERIGEE_SERVER_MESSAGES(X) X(Served) X(Push) X(Pulled) X(Redo) X(Imaged) X(Resend) X(Resent)

}  // namespace perigee
