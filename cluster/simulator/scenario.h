// The parts of a simulated run: a cluster, a policy, a network and the faults that befall it. All of it follows from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/simulator/network/network.h"
#include "src/core/json.h"

namespace perigee::sim {

struct Fault {
  enum class Kind : uint8_t {
    worker_kill,
    worker_power,
    coordinator_kill,
    coordinator_power,  // its disk loses what was not synced
    power_cut,          // everything at once, with what was not synced
    worker_pause,
    coordinator_pause,
    partition,           // one worker from all others
    partition_outgoing,  // it hears, but is not heard
    partition_incoming,
    partition_pair,  // two workers from each other
    partition_half,  // several workers from the coordinator and the rest
    flapping,
    reset,       // every connection of a worker
    reset_pair,  // the connections between two workers
    slow_link,
    loss,
    duplicates,
    disk_full,
    sync_fails,
    not_finite,  // contributions of one worker
    poison,      // examples that no worker can compute
    stuck,
    slow,
    trainer_fails,
    wrong_apply,  // a bit flips while a result is applied
    leave,
    join,
    wrong_data,   // a worker with another data set wants to join
    intruder,     // an intruder sends garbage
    bad_payload,  // the next payload of a worker is none
    outlying,     // contributions of one worker are far too large
    steer,        // the operator pauses the run for a while, or sends a worker away, or turns a knob
    half_open,    // nothing passes any more on the connections between two workers, and neither is told; new ones work
    withholds,    // a worker makes no image of its parameters for a while
    other_rows,   // a worker dies, and comes again with its partitions' rows in another order; refused, it comes with the right ones
    swallow,      // the relay before a worker forwards nothing for a while: what is sent through it is lost, and never sent again
    count
  };
  Kind kind = Kind::worker_kill;
  double at_ms = 0, for_ms = 0;
  int who = 0, other = 1;  // workers, by number
  double how = 0;          // a share, a factor, bytes per second
};

const char* to_string(Fault::Kind kind);

struct Scenario {
  uint64_t seed = 0;
  Json averaging = "allreduce";
  int workers = 4, min_workers = 1;
  int workers_per_host = 1;
  int64_t examples = 96, planned = 288;  // of an epoch; of the run
  int64_t batch = 4, global_batch = 0;
  int64_t shards = 1, streams = 0;  // of the order; lanes of which each shard has some
  int partitions = 0;               // of the data, that workers hold and serve to each other; 0: each has all of them
  bool repeats = false;             // rounds of each step add up several rows, one after the other
  double example_ms = 5, apply_ms = 0.2;
  int buckets = 2;
  LinkQuality network;
  size_t queue_bytes = size_t{1} << 20;
  bool skewed_clocks = false, evaluates = false;
  bool agents = true;        // that tell the coordinator when a worker's process ends
  bool learns = true;        // false: the loss stays where it is, but for chance
  int checkpoint_every = 0;  // rounds; 0: none
  std::vector<Fault> faults;

  double quiet_ms() const;  // when the last fault is over
  bool steered() const;
  bool served() const;
  bool only_servers_die() const;         // and are started again
  bool touches_only_its_target() const;  // nothing in it can make a worker late that no fault names
};

// The names of the policies that scenarios know: "allreduce", "periodic_quorum", "streaming", ...
const std::vector<std::string>& scenario_policies();
// Everything from the seed; `policy` empty: that too.
Scenario make_scenario(uint64_t seed, const std::string& policy = "");

}  // namespace perigee::sim
