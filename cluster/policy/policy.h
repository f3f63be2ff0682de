// An averaging policy as a value: a point in when x what x codec x outer step x topology x synchrony (src/ARCHITECTURE.md, idea 3), from
// the job's "averaging".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cluster/exchange/outer_program.h"
#include "src/core/config.h"

namespace perigee {

struct LayerPolicy;

// Local steps that follow the run (pace.h).
struct PaceOptions {
  bool automatic = false;       // every = "auto": as many as `utilisation` asks for
  double utilisation = 0.8;     // share of the time that is to go into training
  int64_t least = 1, most = 1;  // of an automatic `every`
  bool by_speed = false;        // `every` is the fastest worker's; a slower one makes fewer, in proportion
  bool active() const { return automatic || by_speed; }
};

// Measurements by which a run that goes wrong is reported, or stopped (guard.h).
struct GuardOptions {
  double outlier = 100;    // a change so many times the median is left out; 0: none is
  bool divergence = true;  // a run that diverges is stopped
};

struct Policy {
  enum class What : uint8_t { gradient, update, parameters };  // update: what each worker's optimiser makes of its gradient
  std::string name;                                            // "allreduce", "periodic", "diloco", ... or "custom"
  What what = What::gradient;                                  // after the switch, where there is one
  // Parameters: a round is due after so many local steps, or after so many milliseconds.
  int64_t every = 1;
  double every_ms = 0;  // > 0: by time instead
  PaceOptions pace;
  GuardOptions guard;
  double sync_until = 0;           // gradients each step until this share of the run
  bool average_optimizer = false;  // slots take part in the mean
  Json codec;                      // how each worker's contribution is sent, with every option; null: as sums of float32
  bool sums = false;               // update: added up instead of averaged
  std::string topology = "auto";   // star, ring, tree, direct, hierarchical
  int64_t shards = 0;              // gradient: leaves of the fixed summation tree; 0: one per worker
  double quorum = 1;               // share of the live workers that is enough for a round ...
  double grace_ms = 0;             // ... once this has passed since the quorum was reached
  double deadline_ms = 60'000;     // of any wait in a round; who lets it pass is evicted
  int64_t max_staleness = 4;       // rounds; an older contribution is discarded and its ranges leased anew
  // Served: no rounds of all workers; one process holds the parameters, and each worker pushes to it and pulls from it by itself.
  bool served = false;
  int64_t merge_every = 1;  // contributions that make one round
  bool elastic = false;     // a worker keeps its parameters and moves against the change that it made
  // Parameters: exchanges inside small groups of workers, which only they see, between two rounds.
  struct Inner {
    enum class Groups : uint8_t { site, blocks, random, grid };
    int64_t every = 0;  // local steps; 0: there are none
    Groups groups = Groups::site;
    int64_t size = 2;  // of a group that is no site
    Json codec;        // as above
    std::string topology = "auto";
    bool active() const { return every > 0; }
  } inner;
  std::string across;  // of "nested": the policy between the groups
  OuterProgram outer;  // makes of the mean the result, or what the optimiser is given
  Json outer_options;  // what of the policy's description concerns it: its knobs, and with "custom" its state and program
  // Rounds of fragments of the parameters (fragments.h), and how a result meets the local work that went on.
  int64_t fragments = 1;     // each is averaged every `every` steps, one after the other
  std::string cut = "even";  // what they are: even, layers, strided
  bool overlap = false;      // the next local steps are made while a round is on its way
  int64_t late = 0;          // overlap: its result is taken after exactly so many of them; 0: as soon as it is there
  double keep = -1;          // share of the local parameters that stays when a result is taken; below 0: the result and the work since
  std::vector<LayerPolicy> layers;  // policies by patterns of parameters' names; then codec and outer are theirs

  // synchronous steps: every member takes part in every round by the fixed plan; no Ready, no Begin.
  bool synchronous(double progress) const { return what != What::parameters || progress < sync_until; }
  bool coded() const { return !codec.is_null(); }
  bool coded_steps() const { return coded() && what != What::parameters; }  // synchronous steps with a codec
  bool adds_parts() const;  // of those, with a linear codec: what it makes of a gradient is added up, and nothing is a payload
  // A result is merged into local work instead of replacing it.
  bool partial() const { return fragments > 1 || overlap || keep >= 0 || !layers.empty(); }
  // Local steps of a worker before the round of that number, and the most of any.
  int64_t steps_of(int64_t round) const {
    const int64_t turn = round % fragments;
    return (turn + 1) * every / fragments - turn * every / fragments;
  }
  int64_t steps_per_round() const { return (every + fragments - 1) / fragments; }
  double round_ms() const { return every_ms / static_cast<double>(fragments); }
  // The outer gain zeta / (1 - mu), measured: see outer_gain.
  double gain(double workers) const;
  Json to_json() const;
};

// The policy of the parameters whose names the pattern matches, and no longer one does.
struct LayerPolicy {
  std::string pattern;
  Policy policy;
};

// A gain above the number of workers, but for the rounding of its measurement, overshoots.
inline constexpr double kSafeGain = 1.001;  // times the workers

// The definition of a policy, for Lua, the C++ DSL, help and read_policy: the one list.
struct PolicyDef {
  std::string name;
  std::string doc;
  std::vector<Option> options;          // their texts live as long as the program
  std::vector<const char*> positional;  // options that need no name
  bool own_knobs = false;               // custom: other options are knobs of its program
  // gossip: its rounds are every `consensus` steps, `every` is of the groups. nested: made of two policies, it has no axes of its own.
  enum class Kind : uint8_t { plain, gossip, nested } kind = Kind::plain;

  Policy::What what = Policy::What::parameters;
  Json defaults;                   // of options, by name
  std::vector<std::string> knobs;  // options that are numbers of the program
  Json state, outer;               // null: the mean is the result

  Schema schema() const { return {.options = options, .positional = positional, .open = own_knobs}; }
};

std::span<const PolicyDef> all_policies();

// Error(model) with the nearest name for an unknown policy or option. Null or absent: the default, allreduce.
Policy read_policy(const Json* averaging, const std::string& where);

}  // namespace perigee
