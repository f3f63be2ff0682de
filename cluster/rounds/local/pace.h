// How many local steps each worker makes before the next average. By speed (DyLU, arXiv 2401.09135): H_k = floor(v_k / v_max H), so that
// all are ready at the same time. Automatic: the least H for which training has its share u of the time, H >= u / (1 - u) T / t, where t is
// a step's time and T what a round takes beside training, both as measured and smoothed; at most twice or half as many from one round to
// the next, and fewer while the replicas pull apart. It is the coordinator that decides; workers hear of it with their leases.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "cluster/policy/policy.h"
#include "cluster/protocol/message.h"

namespace perigee {

// Where a round's time went, of one who took part.
struct RoundTimes {
  WorkerId id = 0;
  int64_t steps = 0;
  double training_s = 0, beside_s = 0;
};

class Pace {
 public:
  explicit Pace(const Policy& policy);

  // The duration of a worker's local steps, as it reports it: impossible numbers are ignored.
  void on_steps(WorkerId id, int64_t steps, double seconds);
  // A round is committed. `apart`: the replicas pull against each other.
  void on_round(std::span<const RoundTimes> times, bool apart);
  void forget(WorkerId id) { step_s_.erase(id); }
  void set_every(int64_t every);  // from now on, and no longer automatic

  bool is_set() const { return set_; }
  bool active() const { return options_.active() || set_; }  // workers are told how many steps they make

  int64_t every() const { return every_; }          // of the fastest worker, where speeds count
  int64_t steps(WorkerId id) const;                 // of that worker's next order
  double utilisation() const { return measured_; }  // of the last round; -1: not known
  double beside_s() const { return beside_s_; }     // of a round, smoothed; -1: not known
  double step_s() const;                            // of the worker that `every` is of; -1: not known

 private:
  PaceOptions options_;
  int64_t every_ = 1, most_ = 1;
  int64_t fragments_ = 1;  // that take turns in so many steps
  bool set_ = false;
  double beside_s_ = -1, measured_ = -1;
  std::map<WorkerId, double> step_s_;
};

}  // namespace perigee
