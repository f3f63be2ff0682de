// An averaging policy as a value: a point in when x what x topology x synchrony (DESIGN, idea 3). Read from the job's "averaging".
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/core/config.h"

namespace perigee {

struct Policy {
  enum class What : uint8_t { gradient, parameters };
  std::string name;            // "allreduce", "periodic", "post_local"
  What what = What::gradient;  // after the switch, for post_local
  // Parameters: a round is due after so many local steps, or after so many milliseconds.
  int64_t every = 1;
  double every_ms = 0;             // > 0: by time instead
  double sync_until = 0;           // post_local: gradients each step until this share of the run
  bool average_optimizer = false;  // slots take part in the mean
  std::string topology = "auto";   // star, ring, tree, direct, hierarchical
  int64_t shards = 0;              // gradient: leaves of the fixed summation tree (decision 5); 0: one per worker
  double quorum = 1;               // share of the live workers that is enough for a round ...
  double grace_ms = 0;             // ... once this has passed since the quorum was reached
  double deadline_ms = 60'000;     // of any wait in a round; who lets it pass is evicted
  int64_t max_staleness = 4;       // rounds; an older contribution is discarded and its ranges leased anew

  // Standing rounds: every member takes part in every round by the fixed plan; no Ready, no Begin.
  bool standing(double progress) const { return what == What::gradient || progress < sync_until; }
  // The outer gain zeta / (1 - mu).
  double gain() const { return 1; }
  Json to_json() const;
};

struct PolicyOption {
  const char* name = nullptr;
  const char* type = nullptr;      // "integer", "number", "boolean", "topology"
  const char* fallback = nullptr;  // as shown in help
  const char* doc = nullptr;
};

// What Lua, the C++ DSL, help and read_policy know of a policy: the one list.
struct PolicyDef {
  const char* name = nullptr;
  const char* doc = nullptr;
  std::span<const PolicyOption> options;
  std::span<const char* const> positional;  // options that need no name
};

std::span<const PolicyDef* const> all_policies();

// Error(model) with the nearest name for an unknown policy or option. Null or absent: the default, allreduce.
Policy read_policy(const Json* averaging, const std::string& where);

}  // namespace perigee
