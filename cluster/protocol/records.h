// The records that messages of several protocols are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/protocol/frame.h"

namespace perigee {

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

// A worker's memory of a round whose result it holds, until the ledger is known to be on disk: enough to complete the ledger.
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
  static constexpr size_t kMostInList = kMaxWorkers;
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

// A worker as people call it.
struct Named {
  static constexpr size_t kMostInList = kMaxWorkers;
  WorkerId id = 0;
  std::string name, host;
  template <class F>
  void fields(F& f) {
    f(id), f(name), f(host);
  }
};

// Two workers whose link was reported lost: each ends what it has of it, for the other side of a cut may look alive for long.
struct DeadLink {
  static constexpr size_t kMostInList = kMaxWorkers;
  WorkerId low = 0, high = 0;
  template <class F>
  void fields(F& f) {
    f(low), f(high);
  }
};

// The members of a generation. The next coordinator needs the votes of those that may be in force (votes.h).
struct Membership {
  static constexpr size_t kMostInList = kMaxMemberships;
  uint64_t generation = 0;
  bool established = false;  // its StartEpoch was said; else only its Propose
  std::vector<WorkerId> ids;
  bool operator==(const Membership&) const = default;
  template <class F>
  void fields(F& f) {
    f(generation), f(established), f(ids);
  }
};

// A worker's samples of one part of the data: compared, so that all train on the same.
struct DataPrint {
  static constexpr size_t kMostInList = 16;
  std::string part;      // "train", "test"
  uint64_t hash = 0;     // src/data/fingerprint.h
  std::string describe;  // for people: what the source calls itself
  bool operator==(const DataPrint&) const = default;
  template <class F>
  void fields(F& f) {
    f(part), f(hash), f(describe);
  }
};

// Rows of the data that a worker holds and serves to the others (data.at = "partitions"), and what tells them from others.
struct HeldPartition {
  static constexpr size_t kMostInList = kMaxPartitions;
  std::string name;
  std::string hash;  // of all its bytes: src/data/records/partition.h
  int64_t rows = 0;
  bool operator==(const HeldPartition&) const = default;
  template <class F>
  void fields(F& f) {
    f(name), f(hash), f(rows);
  }
};

struct PartitionPlace {
  static constexpr size_t kMostInList = kMaxPartitions;
  std::string name;
  std::string address;  // where its holder serves it
  template <class F>
  void fields(F& f) {
    f(name), f(address);
  }
};

struct Share {
  static constexpr size_t kMostInList = kMaxWorkers;
  WorkerId id = 0;
  int64_t examples = 0;
  std::vector<Range> ranges;
  bool operator==(const Share&) const = default;
  template <class F>
  void fields(F& f) {
    f(id), f(examples), f(ranges);
  }
};

// A round that a server has made, as Served tells it: all that making it again needs, besides what was pushed.
struct RedoRound {
  static constexpr size_t kMostInList = kMaxRedo;
  int64_t round = 0;
  uint64_t hash = 0;  // of the result
  int64_t workers = 0, examples_after = 0;
  std::vector<Share> shares;
  template <class F>
  void fields(F& f) {
    f(round), f(hash), f(workers), f(examples_after), f(shares);
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

}  // namespace perigee
