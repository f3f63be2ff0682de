// What nodes say to each other. A frame is a fixed header and a payload; the payload of each type is one struct below, written
// field by field, little-endian, by `fields`; decoding checks every count and length against its bound before it allocates.
// Data from outside is never trusted: decode() returns false, and the connection is closed, for anything that is not exactly that.
// Integers and doubles have their own width, a bool is one byte 0 or 1, a text or vector is a uint32 count and its
// elements. A plain text has at most kMaxText bytes; a `long_text` and the texts of a list only the frame's bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace perigee {

inline constexpr uint32_t kMagic = 0x45475250;  // "PRGE"
inline constexpr uint16_t kProtocol = 1;        // of the header and all structs below; others are refused in the first frame
inline constexpr size_t kHeaderBytes = 40;
inline constexpr size_t kMaxFrameBytes = size_t{16} << 20;  // header and payload
inline constexpr size_t kChunkBytes = size_t{256} << 10;    // payload of one Chunk or Image frame: fits in the L2 cache
inline constexpr size_t kMaxWorkers = 4096;
inline constexpr size_t kMaxRanges = 65536;
inline constexpr size_t kMaxTraced = 2048;
inline constexpr size_t kMaxText = 4096;
inline constexpr size_t kMaxMemberships = 16;  // that somebody knows of at a time

using WorkerId = uint32_t;  // given by the coordinator, never twice in a run; 0 is nobody

enum class MessageType : uint16_t {
  // worker and coordinator
  join = 1,
  welcome,
  refuse,
  form,
  formed,
  heal,
  healed,
  go,
  lease,
  ready,
  begin,
  done,
  commit,
  beat,
  link_lost,
  evaluate,
  evaluated,
  snapshot,
  leave,
  failed,
  stop,
  traced,
  witness,
  coordinators,
  served,
  // worker and worker
  link = 64,
  chunk,
  fetch,
  image,
  push,
  pulled,
  // launcher, agent, status, standby
  start = 128,
  started,
  exited,
  status,
  report,
  replicate,
  replicated,
  follow,
  inherit,
  taken_over,
  steer,
  // data.at = "coordinator"
  read = 192,
  examples,
  // between two transports; never handed to anybody else
  shared_offer = 240,
  shared_switch,
  shared_refused,
};

const char* to_string(MessageType type);  // "join"; "unknown" for a number without a name

// On the wire, 40 bytes: magic, protocol u16, type u16, length u32, a zero u32, job, generation, round.
struct FrameHeader {
  MessageType type = MessageType::beat;
  uint64_t job = 0;         // of the whole run: a random number; frames of another job are dropped and counted
  uint64_t generation = 0;  // of the sender; stale frames are dropped and counted (fencing)
  int64_t round = -1;
  uint32_t length = 0;  // of the payload
  uint16_t protocol = kProtocol;
};

void write_header(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out);
// False: wrong magic, or a length above the bound. Another protocol version is true, with that version: the reader refuses it.
bool read_header(std::span<const std::byte> bytes, FrameHeader* header);

// Part of an epoch's permutation of the training data: positions [begin, begin + count) of epoch `epoch`.
struct Range {
  uint64_t epoch = 0;
  int64_t begin = 0;
  int64_t count = 0;
  bool operator==(const Range&) const = default;
  template <class F>
  void fields(F& f) {
    f(epoch), f(begin), f(count);
  }
};

// What a worker remembers of a round whose result it holds, until the ledger is known to be on disk: enough to complete the ledger.
struct LogEntry {
  int64_t round = -1;
  uint64_t generation = 0;
  uint64_t hash = 0;          // of the result
  std::vector<Range> ranges;  // of all workers together, neighbours joined
  template <class F>
  void fields(F& f) {
    f(round), f(generation), f(hash), f(ranges);
  }
};

// The name alone, for people: "node1" of "node1#6f0c...". Machines may have the same name.
std::string host_name_in(const std::string& host);

struct Member {
  WorkerId id = 0;
  std::string name;     // "host1/2"; a claim, for people
  std::string host;     // equal for workers that share memory: "name#machine"
  std::string address;  // where it listens for other workers
  std::string site;     // what a person calls the group of workers that is near it; empty: its host
  template <class F>
  void fields(F& f) {
    f(id), f(name), f(host), f(address), f(site);
  }
};

// Two workers whose link was reported lost: each ends what it has of it, for the other side of a cut may look alive for long.
struct DeadLink {
  WorkerId low = 0, high = 0;
  template <class F>
  void fields(F& f) {
    f(low), f(high);
  }
};

// Who takes part in a generation. Whoever wants to coordinate next needs the votes of those that may be in force (votes.h).
struct Membership {
  uint64_t generation = 0;
  bool established = false;  // its Go was said; else only its Form
  std::vector<WorkerId> ids;
  bool operator==(const Membership&) const = default;
  template <class F>
  void fields(F& f) {
    f(generation), f(established), f(ids);
  }
};

// ---- worker -> coordinator ----

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
  template <class F>
  void fields(F& f) {
    f(version), f(name), f(host), f(address), f(site), f(id), f(fingerprint), f(round), f(hash), f(threads), f(pid), f(server);
  }
};

// What a worker reads as one part of the data: compared, so that all train on the same.
struct DataPrint {
  std::string part;      // "train", "test"
  uint64_t hash = 0;     // src/data/fingerprint.h
  std::string describe;  // for people: what the source calls itself
  bool operator==(const DataPrint&) const = default;
  template <class F>
  void fields(F& f) {
    f(part), f(hash), f(describe);
  }
};

// The answer to Form, and again when the fingerprint became known.
struct Formed {
  static constexpr MessageType kType = MessageType::formed;
  int64_t round = -1;  // the result it holds; hash 0: none
  uint64_t hash = 0;
  uint64_t fingerprint = 0;
  std::vector<Range> pending;    // its contribution or training in progress, not in any result that it holds
  int64_t base = -1;             // the result that `pending` started from
  std::vector<LogEntry> log;     // of the rounds from the last known `synced` one to the held one, oldest first
  std::vector<DataPrint> data;   // what the fingerprint is made of; only with the first
  std::vector<WorkerId> broken;  // the group of the inner exchange that the change of membership broke off, this worker among them
  template <class F>
  void fields(F& f) {
    f(round), f(hash), f(fingerprint), f(pending), f(base), f(log), f(data), f(broken);
  }
};

struct Healed {
  static constexpr MessageType kType = MessageType::healed;
  int64_t round = -1;
  uint64_t hash = 0;
  bool ok = true;
  template <class F>
  void fields(F& f) {
    f(round), f(hash), f(ok);
  }
};

struct Figures {
  double loss_sum = 0;  // over the examples
  double correct = -1;  // -1: no class labels
  double learning_rate = 0;
  double load_s = 0, compute_s = 0, encode_s = 0, wait_s = 0, transfer_s = 0, apply_s = 0;
  uint64_t bytes_up = 0, bytes_down = 0;  // of this round's exchanges
  uint64_t bytes_across = 0;              // of those sent: to workers of other sites
  double residual_square = -1;            // sum of the squares of what the codec has not sent yet; -1: it keeps nothing
  template <class F>
  void fields(F& f) {
    f(loss_sum), f(correct), f(learning_rate), f(load_s), f(compute_s), f(encode_s), f(wait_s), f(transfer_s), f(apply_s);
    f(bytes_up), f(bytes_down), f(bytes_across), f(residual_square);
  }
};

// How large a worker's numbers are: Euclidean norms over the parameter block. -1: not known.
struct Norms {
  double change = -1;      // of what its local steps changed
  double residual = -1;    // of what its codec has not sent yet, error feedback's memory
  double parameters = -1;  // of the last result ...
  double merged = -1;      // ... and of the mean change that made it, before the outer step
  template <class F>
  void fields(F& f) {
    f(change), f(residual), f(parameters), f(merged);
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

// The result of header.round is applied and held.
struct Done {
  static constexpr MessageType kType = MessageType::done;
  uint64_t hash = 0;
  int64_t examples = 0;            // of its own contribution (standing rounds)
  std::vector<Range> quarantined;  // standing rounds: own ranges that were left out because they gave NaN or infinity
  Figures figures;
  template <class F>
  void fields(F& f) {
    f(hash), f(examples), f(quarantined), f(figures);
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
  std::string why;
  template <class F>
  void fields(F& f) {
    f(peer), f(at_fault), f(why);
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

// Where a standby may take over: after Join, and before each Formed.
struct Witness {
  static constexpr MessageType kType = MessageType::witness;
  std::vector<Membership> memberships;  // the established one and what was proposed since, as far as this worker took part, oldest first
  template <class F>
  void fields(F& f) {
    f(memberships);
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

// What a worker's threads did, for the timeline: see src/core/trace.h.
struct TracedSpan {
  uint64_t begin_ns = 0, end_ns = 0;  // the worker's clock
  int64_t round = -1, count = 0;
  uint8_t phase = 0, row = 0;
  template <class F>
  void fields(F& f) {
    f(begin_ns), f(end_ns), f(round), f(count), f(phase), f(row);
  }
};
struct Traced {
  static constexpr MessageType kType = MessageType::traced;
  uint64_t dropped = 0;           // so far, for want of room
  std::vector<TracedSpan> spans;  // at most kMaxTraced
  template <class F>
  void fields(F& f) {
    f(dropped), f(spans);
  }
};

// ---- coordinator -> worker ----

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

// Membership changed. Exchanges of older generations end; contributions are kept.
struct Form {
  static constexpr MessageType kType = MessageType::form;
  std::vector<Member> members;  // their order is the rank
  int64_t synced = -1;          // the ledger holds every round up to this one
  WorkerId server = 0;          // of the members, with a served policy; else 0
  std::vector<DeadLink> dead;   // links to be made anew
  template <class F>
  void fields(F& f) {
    f(members), f(synced), f(server), f(dead);
  }
};

// "You hold an older result than `donor`": fetch it. `keep_local`: move local work onto the new base instead of dropping it.
// Donor 0: the coordinator's own (round -1: make the initial values). Donor is the receiver itself: it holds the right result, but its
// local work belongs to somebody else by now and is dropped; served rounds: with keep_local it has been counted.
struct Heal {
  static constexpr MessageType kType = MessageType::heal;
  WorkerId donor = 0;
  int64_t round = -1;
  uint64_t hash = 0;
  bool keep_local = false;
  template <class F>
  void fields(F& f) {
    f(donor), f(round), f(hash), f(keep_local);
  }
};

// All members hold the result of `base`; header.round is the next.
struct Go {
  static constexpr MessageType kType = MessageType::go;
  int64_t base = -1;
  uint64_t hash = 0;
  // The fixed plan (standing rounds) from here on: first the leftovers, then the permutations from (epoch, position).
  std::vector<Range> leftovers;
  uint64_t epoch = 0;
  int64_t position = 0;
  int64_t examples = 0;  // committed so far
  // What both plans are made of, said once so that nobody computes it differently.
  bool standing = true;
  int64_t per_epoch = 0, planned = 0;  // examples; planned 0: endless
  int64_t batch = 0;                   // of one local step
  int64_t global = 0;                  // of one standing round
  int32_t leaves = 1;
  int64_t last_round = -1;    // no round after this one; -1: by `planned` alone
  std::string learning_rate;  // JSON of the number or schedule that holds from here on; empty: the job's
  template <class F>
  void fields(F& f) {
    f(base), f(hash), f(leftovers), f(epoch), f(position), f(examples);
    f(standing), f(per_epoch), f(planned), f(batch), f(global), f(leaves), f(last_round), f(learning_rate);
  }
};

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

struct Share {
  WorkerId id = 0;
  int64_t examples = 0;
  std::vector<Range> ranges;
  bool operator==(const Share&) const = default;
  template <class F>
  void fields(F& f) {
    f(id), f(examples), f(ranges);
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

// Served rounds, from the server: header.round is made, of what these workers have pushed.
struct Served {
  static constexpr MessageType kType = MessageType::served;
  uint64_t hash = 0;               // of the result
  std::vector<Share> shares;       // in the order of their arrival
  std::vector<int64_t> staleness;  // of each: rounds that it did not know of
  uint64_t discarded = 0;          // contributions that were too stale, since the round before
  Figures figures;
  template <class F>
  void fields(F& f) {
    f(hash), f(shares), f(staleness), f(discarded), f(figures);
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

// Send an image of the result held, at the next step border: a checkpoint ("checkpoint") or a model ("model").
struct Snapshot {
  static constexpr MessageType kType = MessageType::snapshot;
  uint64_t request = 0;
  std::string what;
  template <class F>
  void fields(F& f) {
    f(request), f(what);
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

// ---- worker <-> worker ----

struct Link {
  static constexpr MessageType kType = MessageType::link;
  WorkerId from = 0, to = 0;
  template <class F>
  void fields(F& f) {
    f(from), f(to);
  }
};

// Part of an exchange; the bytes follow the struct as the frame's body (not a field).
struct Chunk {
  static constexpr MessageType kType = MessageType::chunk;
  WorkerId from = 0;
  uint32_t bucket = 0;
  uint16_t phase = 0;   // of the topology: reduce or broadcast, ring step
  uint16_t row = 0;     // which partial sum (shards)
  uint64_t offset = 0;  // bytes from the start of the bucket
  uint32_t inner = 0;   // of the header's round: 0, or the number, from 1, of an exchange inside a group before it
  template <class F>
  void fields(F& f) {
    f(from), f(bucket), f(phase), f(row), f(offset), f(inner);
  }
};

struct Fetch {
  static constexpr MessageType kType = MessageType::fetch;
  WorkerId from = 0;
  uint64_t request = 0;
  template <class F>
  void fields(F& f) {
    f(from), f(request);
  }
};

// Part of an image (a .safetensors file); the bytes follow the struct. `total` 0: it cannot be had, `why` says why.
struct Image {
  static constexpr MessageType kType = MessageType::image;
  uint64_t request = 0;
  uint64_t offset = 0, total = 0;
  int64_t round = -1;
  uint64_t hash = 0;
  std::string why;
  std::vector<LogEntry> log;  // with offset 0: the donor's, which the healed one must remember as well
  template <class F>
  void fields(F& f) {
    f(request), f(offset), f(total), f(round), f(hash), f(why), f(log);
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

// ---- launcher <-> agent, and anybody's question ----

struct Start {
  static constexpr MessageType kType = MessageType::start;
  std::string version;
  std::string job_name;
  std::string coordinator;  // where the workers are to go
  std::string key;          // the job's own key, hex: workers of one job cannot join another
  uint32_t workers = 0;     // 0: as many as the agent thinks right
  uint32_t threads = 0;     // of each; 0: cores / workers
  uint64_t generation = 0;  // of the coordinator: one whose standby has taken over owns the workers no more
  bool works = true;        // this agent is to start workers...
  bool stands_by = false;   // ...and this one the standby
  template <class F>
  void fields(F& f) {
    f(version), f(job_name), f(coordinator), f(key), f(workers), f(threads), f(generation), f(works), f(stands_by);
  }
};

struct Started {
  static constexpr MessageType kType = MessageType::started;
  std::string name;
  uint32_t workers = 0;
  std::string error;  // why not; empty: they are started
  template <class F>
  void fields(F& f) {
    f(name), f(workers), f(error);
  }
};

struct Exited {
  static constexpr MessageType kType = MessageType::exited;
  std::string name;  // of the worker
  uint32_t pid = 0;
  int32_t code = 0, signal = 0;
  bool respawned = false;
  bool standby = false;  // not a worker
  std::string tail;      // the end of what it wrote to standard error
  template <class F>
  void fields(F& f) {
    f(name), f(pid), f(code), f(signal), f(respawned), f(standby), f(tail);
  }
};

struct Status {
  static constexpr MessageType kType = MessageType::status;
  std::string version;
  template <class F>
  void fields(F& f) {
    f(version);
  }
};

struct Report {
  static constexpr MessageType kType = MessageType::report;
  std::string json;
  template <class F>
  void fields(F& f) {
    f.long_text(json);
  }
};

// What somebody who is no member wants of a run: one command as JSON (steer.h). The answer is a Report with "answers": request, and, if it
// was not done, "refused": kind, what, got, expected, hint.
struct Steer {
  static constexpr MessageType kType = MessageType::steer;
  std::string version;
  uint64_t request = 0;  // the asker's number for it
  std::string json;      // at most kMaxText bytes
  template <class F>
  void fields(F& f) {
    f(version), f(request), f(json);
  }
};

// ---- coordinator and standby ----

// The standby's first word.
struct Follow {
  static constexpr MessageType kType = MessageType::follow;
  std::string version, name, host;
  std::string address;    // where workers find it, should it take over
  bool prepared = false;  // false: it only asks what the job is
  uint64_t bytes = 0;     // of the ledger, that it has already ...
  uint64_t hash = 0;      // ... and their XXH3
  template <class F>
  void fields(F& f) {
    f(version), f(name), f(host), f(address), f(prepared), f(bytes), f(hash);
  }
};

// The answer to one that is not prepared: what it needs to go on with the run.
struct Inherit {
  static constexpr MessageType kType = MessageType::inherit;
  std::string job, folder, tuning;  // as in Welcome
  std::string launch;               // JSON: what the launcher was told
  template <class F>
  void fields(F& f) {
    f.long_text(job), f(folder), f.long_text(tuning), f.long_text(launch);
  }
};

// Bytes of the ledger, which follow the struct, from `offset` on; and, with or without them, that the coordinator is alive.
struct Replicate {
  static constexpr MessageType kType = MessageType::replicate;
  uint64_t offset = 0;
  Membership membership;  // generation 0: none yet, or nothing new
  bool consent = false;   // the coordinator has no majority for `membership`: does the standby agree?
  bool working = true;    // false: the coordinator lacks workers; those who do not reach it may reach the standby
  uint64_t image = 0;     // Image frames with this request number follow: the newest checkpoint
  std::string session;    // JSON: what the run's log and judge remember; empty: nothing new
  template <class F>
  void fields(F& f) {
    f(offset), f(membership), f(consent), f(working), f(image), f.long_text(session);
  }
};

struct Replicated {
  static constexpr MessageType kType = MessageType::replicated;
  uint64_t bytes = 0;    // of the ledger, that it has
  uint64_t consent = 0;  // the newest generation that it agreed to
  template <class F>
  void fields(F& f) {
    f(bytes), f(consent);
  }
};

// To the coordinator that was: header.generation is in force.
struct TakenOver {
  static constexpr MessageType kType = MessageType::taken_over;
  std::string address;  // where the run goes on
  template <class F>
  void fields(F& f) {
    f(address);
  }
};

// ---- examples from the coordinator ----

// A worker asks for examples. They come in this order; what it asks for later comes later.
struct Read {
  static constexpr MessageType kType = MessageType::read;
  uint64_t request = 0;  // the worker's number for it, never twice on a connection
  uint32_t source = 0;   // of those that Welcome names
  uint64_t epoch = 0, seed = 0;
  std::vector<int64_t> ids;  // indices in the source
  template <class F>
  void fields(F& f) {
    f(request), f(source), f(epoch), f(seed), f(ids);
  }
};
// Part of the answer; its bytes follow the struct. All examples of the request are one row of records (data/record.h), in the order that
// was asked for, and their bytes come in order. With an error: the record that begins at `offset` cannot be read; that is said before
// its bytes, which come all the same and mean nothing.
struct Examples {
  static constexpr MessageType kType = MessageType::examples;
  uint64_t request = 0;
  uint64_t offset = 0;
  uint16_t kind = 0;  // ErrorKind; 0: no error
  std::string error;
  template <class F>
  void fields(F& f) {
    f(request), f(offset), f(kind), f(error);
  }
};

// Every message: the list that coders, fuzzers and tests are made from.
// clang-format off
#define PERIGEE_MESSAGES(X)                                                                                                     \
  X(Join) X(Welcome) X(Refuse) X(Form) X(Formed) X(Heal) X(Healed) X(Go) X(Lease) X(Ready) X(Begin) X(Done) X(Commit) X(Beat)   \
  X(LinkLost) X(Evaluate) X(Evaluated) X(Snapshot) X(Leave) X(Failed) X(Stop) X(Traced) X(Witness) X(Coordinators) X(Served)      \
  X(Link) X(Chunk) X(Fetch) X(Image) X(Push) X(Pulled)                                                                                            \
  X(Start) X(Started) X(Exited) X(Status) X(Report) X(Replicate) X(Replicated) X(Follow) X(Inherit) X(TakenOver) X(Steer)         \
  X(Read) X(Examples)
// clang-format on

// A frame without a body, or the head of one whose body has `body_bytes`. header.type and header.length are filled in. A plain text is
// cut to kMaxText (it is for people); Error(resources) when a vector is above its bound or the whole above kMaxFrameBytes.
template <class M>
std::vector<std::byte> encode(const M& message, FrameHeader header, size_t body_bytes = 0);
// The same into memory of the caller's, which is as large as the head or larger: no allocation. The bytes written.
template <class M>
size_t encode_into(std::span<std::byte> out, const M& message, FrameHeader header, size_t body_bytes = 0);
inline constexpr size_t kChunkHeadBytes = kHeaderBytes + 24;  // encode_into of a Chunk
// From a whole frame's payload. False when it is not exactly an M; with `body`, what follows the struct is put there, else nothing may
// follow. `*message` is then half filled.
template <class M>
bool decode(std::span<const std::byte> payload, M* message, std::span<const std::byte>* body = nullptr);

}  // namespace perigee
