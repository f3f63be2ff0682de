// Keeps a run from going wrong silently. Outlying contributions: one that changes the parameters many times as much as its
// like is left out of the mean. Divergence: of the training loss, of the parameters, of what error feedback holds back. And how far the
// replicas pull apart: mean |change_k| / |mean change| is 1 when all agree, sqrt(K) when they have nothing in common, and more when they
// work against each other. Norms come from workers, and are believed only as far as they can be.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/policy/policy.h"
#include "cluster/protocol/message.h"

namespace perigee {

// A contribution that is ready.
struct ChangeSize {
  WorkerId id = 0;
  int64_t steps = 0, examples = 0;
  Norms norms;
};

struct Outlier {
  WorkerId id = 0;
  double size = 0, median = 0;  // norms, as of as many steps
};

// A committed round.
struct RoundHealth {
  int64_t round = 0;
  double loss = 0, progress = 0;
  int workers = 0;
  double gain = 1;  // of the outer step
  int turns = 1;    // rounds in which every worker has its turn once
};

class Guard {
 public:
  explicit Guard(const GuardOptions& options) : options_(options) {}

  // Those of `ready` that are outlying against the others and against the last rounds.
  std::vector<Outlier> outlying(std::span<const ChangeSize> ready) const;
  // Those that the round was made of. What they say of the round before it is taken in as well.
  void on_begin(std::span<const ChangeSize> taken);
  // -> why the run diverges, and since when; empty: it does not. Nothing is said of the last fifth of a run, which is as good as over.
  std::string on_round(const RoundHealth& health);
  // The parameters are those of `round` again, -1: the initial ones. What was known then holds, and nothing that came later.
  void go_back(int64_t round);

  const Norms& norms() const {
    return means_;
  }  // the last round's, by the mean of its workers; `merged` and `parameters` of the one before
  double divergence() const { return divergence_; }  // of replicas, in the last round that is known; -1: none
  bool apart() const { return apart_; }              // they work against each other

 private:
  std::vector<double> recent_of_others(WorkerId id) const;
  std::string judge_loss(const RoundHealth& health);
  void smooth_loss(double loss, double share);
  std::string judge_residual(const RoundHealth& health);
  std::string judge_parameters(const RoundHealth& health);
  void remember(int64_t round);

  GuardOptions options_;
  std::deque<std::pair<WorkerId, double>> recent_;  // sizes by step of the last rounds
  Norms means_;
  int taken_ = 0;  // workers of the last round
  double divergence_ = -1;
  bool apart_ = false;
  int apart_rounds_ = 0;  // in a row

  // The state of a line of parameters after a round.
  struct Memory {
    int64_t round = -1;
    double loss = -1, first_loss = -1, best_loss = -1, progress = -1;  // smoothed; at the last round
    double last_loss = -1, scatter = 0, calm_scatter = 0;  // as it came; half the mean square of its steps; the same at its best
    int64_t scattered = 0;                                 // rounds of which that is the mean
    double first_parameters = -1;
  };
  Memory now_;
  std::deque<Memory> past_;  // oldest first, of some rounds
  int64_t past_every_ = 1;
  std::deque<double> changes_;                      // mean norms of the last rounds
  int64_t high_loss_since_ = -1, held_since_ = -1;  // rounds; -1: it is as it should be
  double high_loss_at_ = 0;                         // progress
};

}  // namespace perigee
