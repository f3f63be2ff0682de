// When the learning rate falls because a figure has stopped improving. Counts as PyTorch's ReduceLROnPlateau does, but that the rate falls
// with the evaluation number `patience` without improvement, as in Keras, and not with the one after it.
#pragma once

#include <cstdint>
#include <string>

#include "src/core/config.h"

namespace perigee {

// "reduce_on_plateau" of a job; the options are those of plateau_schema (src/job/job_schema.h).
class Plateau {
 public:
  Plateau() = default;  // changes nothing
  explicit Plateau(const Config& options);

  bool active() const { return active_; }
  const std::string& metric() const { return metric_; }
  // After an epoch whose figure is `value`. True when the factor has changed.
  bool after_epoch(double value);
  double factor() const { return factor_; }  // on the learning rate, from the next step on

  Json state() const;
  void restore(const Json& state);

 private:
  bool active_ = false;
  std::string metric_;
  bool lower_is_better_ = true;
  double reduction_ = 0.1, min_improvement_ = 0, min_factor_ = 0;
  int64_t patience_ = 10, cooldown_ = 0;

  double factor_ = 1, best_ = 0;
  bool has_best_ = false;
  int64_t without_ = 0;  // evaluations since the last improvement
  int64_t cooling_ = 0;  // evaluations that do not count yet
};

}  // namespace perigee
