// Who takes part: joining, changes of membership, healing, heartbeats, the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/protocol/frame.h"
#include "cluster/protocol/records.h"

namespace perigee {

struct Join {
  static constexpr MessageType kType = MessageType::join;
  std::string version;  // PERIGEE_VERSION
  std::string name, host, address, site;
  WorkerId id = 0;           // 0: new; else what it was before the connection or the coordinator was lost
  uint64_t fingerprint = 0;  // of the training data; 0: not opened yet (the job comes with Welcome)
  int64_t round = -1;        // the result it holds; -1: the job's initial values
  uint64_t hash = 0;         // of that result; 0: it holds none
  uint32_t threads = 1, pid = 0;
  bool server = false;  // served rounds: it holds the parameters and trains nothing
  std::string serves;   // where others can read `held`
  std::vector<HeldPartition> held;
  template <class F>
  void fields(F& f) {
    f(version), f(name), f(host), f(address), f(site), f(id), f(fingerprint), f(round), f(hash), f(threads), f(pid), f(server);
    f(serves), f(held);
  }
};

struct Welcome {
  static constexpr MessageType kType = MessageType::welcome;
  std::string version;
  WorkerId id = 0;
  std::string job;     // canonical JSON
  std::string folder;  // what relative paths in it start from
  std::string tuning;  // JSON of the coordinator's tuning table; empty: none
  int32_t threads = 0;
  std::string sources;  // JSON of what the coordinator serves (data/served_data.h); empty: the worker reads its own data
  bool trace = false;   // send Traced
  template <class F>
  void fields(F& f) {
    f(version), f(id), f.long_text(job), f(folder), f.long_text(tuning), f(threads), f.long_text(sources), f(trace);
  }
};

struct Refuse {
  static constexpr MessageType kType = MessageType::refuse;
  uint16_t kind = 5;   // ErrorKind: what the refused one exits with
  bool retry = false;  // false: it is of no use to come back
  std::string what, got, expected, hint;
  template <class F>
  void fields(F& f) {
    f(kind), f(retry), f(what), f(got), f(expected), f(hint);
  }
};

// Where to look for a coordinator from now on, in turn: this one, then its standby.
struct Coordinators {
  static constexpr MessageType kType = MessageType::coordinators;
  std::vector<std::string> addresses;
  template <class F>
  void fields(F& f) {
    f(addresses);
  }
};

// Who holds which partition of the data by now: after Welcome all that are known, later those that changed.
struct Holders {
  static constexpr MessageType kType = MessageType::holders;
  std::vector<PartitionPlace> places;
  template <class F>
  void fields(F& f) {
    f(places);
  }
};

// Where a standby may take over: after Join, and before each Acknowledge.
struct Witness {
  static constexpr MessageType kType = MessageType::witness;
  std::vector<Membership> memberships;  // the established one and what was proposed since, as far as this worker took part, oldest first
  template <class F>
  void fields(F& f) {
    f(memberships);
  }
};

// Membership changed. Exchanges of older generations end; contributions are kept.
struct Propose {
  static constexpr MessageType kType = MessageType::propose;
  std::vector<Member> members;  // their order is the rank
  int64_t synced = -1;          // the ledger holds every round up to this one
  WorkerId server = 0;          // of the members, with a served policy; else 0
  std::vector<DeadLink> dead;   // links to be made anew
  template <class F>
  void fields(F& f) {
    f(members), f(synced), f(server), f(dead);
  }
};

// The answer to Propose, and again when the fingerprint became known.
struct Acknowledge {
  static constexpr MessageType kType = MessageType::acknowledge;
  int64_t round = -1;  // the result it holds; hash 0: none
  uint64_t hash = 0;
  uint64_t fingerprint = 0;
  std::vector<Range> pending;    // its contribution or training in progress, not in any result that it holds
  int64_t base = -1;             // the result that `pending` started from
  std::vector<LogEntry> log;     // of the rounds from the last known `synced` one to the held one, oldest first
  std::vector<DataPrint> data;   // what the fingerprint is made of; only with the first
  std::vector<WorkerId> broken;  // the group of the inner exchange that the change of membership broke off, this worker among them
  int64_t kept_from = 0;         // served rounds: it has all that it has pushed for this round and later ones
  std::vector<RedoRound> made;   // from a server: of the log, what the coordinator may not have heard
  template <class F>
  void fields(F& f) {
    f(round), f(hash), f(fingerprint), f(pending), f(base), f(log), f(data), f(broken), f(kept_from), f(made);
  }
};

// "You hold an older result than `donor`": fetch it. `keep_local`: move local work onto the new base instead of dropping it.
// Donor 0: the coordinator's own (round -1: make the initial values). Donor is the receiver itself: it holds the right result, but its
// local work belongs to another worker by now and is dropped; served rounds: with keep_local it has been counted.
struct CatchUp {
  static constexpr MessageType kType = MessageType::catch_up;
  WorkerId donor = 0;
  int64_t round = -1;
  uint64_t hash = 0;
  bool keep_local = false;
  template <class F>
  void fields(F& f) {
    f(donor), f(round), f(hash), f(keep_local);
  }
};

struct CaughtUp {
  static constexpr MessageType kType = MessageType::caught_up;
  int64_t round = -1;
  uint64_t hash = 0;
  bool ok = true;
  template <class F>
  void fields(F& f) {
    f(round), f(hash), f(ok);
  }
};

// All members hold the result of `base`; header.round is the next.
struct StartEpoch {
  static constexpr MessageType kType = MessageType::start_epoch;
  int64_t base = -1;
  uint64_t hash = 0;
  // The fixed plan (synchronous steps) from here on: first the leftovers, then the permutations from (epoch, position).
  std::vector<Range> leftovers;
  uint64_t epoch = 0;
  int64_t position = 0;
  int64_t examples = 0;  // committed so far
  // The inputs of both plans, in one place so that they cannot differ.
  bool synchronous = true;
  int64_t per_epoch = 0, planned = 0;  // examples; planned 0: endless
  int64_t batch = 0;                   // of one local step
  int64_t global = 0;                  // of one synchronous step
  int32_t leaves = 1;
  int64_t last_round = -1;  // no round after this one; -1: by `planned` alone
  std::string settings;     // options of the job that hold from here on, as JSON: {"optimizer.lr": 0.01}; empty: the job's
  template <class F>
  void fields(F& f) {
    f(base), f(hash), f(leftovers), f(epoch), f(position), f(examples);
    f(synchronous), f(per_epoch), f(planned), f(batch), f(global), f(leaves), f(last_round), f(settings);
  }
};

struct Beat {
  static constexpr MessageType kType = MessageType::beat;
  uint64_t sent_ns = 0;  // the sender's clock; echoed in `echo_ns` of the answer
  uint64_t echo_ns = 0;
  int64_t step = 0, evaluated = 0;  // local steps made, examples evaluated: progress is watched apart from liveness
  double examples_per_s = 0;
  uint64_t bytes_up = 0, bytes_down = 0;
  std::string waits_for;  // what it is waiting for; empty: nothing
  template <class F>
  void fields(F& f) {
    f(sent_ns), f(echo_ns), f(step), f(evaluated), f(examples_per_s), f(bytes_up), f(bytes_down), f(waits_for);
  }
};

struct LinkLost {
  static constexpr MessageType kType = MessageType::link_lost;
  WorkerId peer = 0;
  bool at_fault = false;  // it sent what no honest worker sends
  bool down = false;      // nothing came over the last connection for long, or none could be made
  std::string why;
  template <class F>
  void fields(F& f) {
    f(peer), f(at_fault), f(down), f(why);
  }
};

struct Leave {
  static constexpr MessageType kType = MessageType::leave;
  std::string why;
  template <class F>
  void fields(F& f) {
    f(why);
  }
};

struct Failed {
  static constexpr MessageType kType = MessageType::failed;
  uint16_t kind = 5;     // ErrorKind
  bool for_all = false;  // the job is at fault, not the worker: every worker would fail (a broken layer, bad options)
  std::string text;
  std::vector<Range> ranges;  // what it was working on
  template <class F>
  void fields(F& f) {
    f(kind), f(for_all), f(text), f(ranges);
  }
};

struct Stop {
  static constexpr MessageType kType = MessageType::stop;
  std::string why;
  bool finished = false;
  template <class F>
  void fields(F& f) {
    f(why), f(finished);
  }
};

#define PERIGEE_MEMBERSHIP_MESSAGES(X) \
  X(Join)                              \
  X(Welcome)                           \
  X(Refuse)                            \
  X(Coordinators)                      \
  X(Holders) X(Witness) X(Propose) X(Acknowledge) X(CatchUp) X(CaughtUp) X(StartEpoch) X(Beat) X(LinkLost) X(Leave) X(Failed) X(Stop)

}  // namespace perigee
