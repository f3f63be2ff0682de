// How fast training goes, and how long the rest will take.
#pragma once

#include <algorithm>
#include <cmath>

#include "src/core/stopwatch.h"
#include "src/vectors/vector_training.h"

namespace perigee {

// Speed over the last seconds, and what it means for the rest.
class ProgressClock {
 public:
  ProgressClock(int64_t all, double reports_a_second) : all_(all), interval_(1 / reports_a_second) {}
  bool due() const { return watch_.seconds() - last_seconds_ >= interval_; }
  VectorProgress at(int64_t done, double rate, double loss) {
    const double now = watch_.seconds(), elapsed = now - last_seconds_;
    const double lately = static_cast<double>(done - last_done_) / std::max(elapsed, 1e-9), weight = 1 - std::exp(-elapsed / kMemory);
    speed_ = last_done_ == 0 ? static_cast<double>(done) / std::max(now, 1e-9) : speed_ + weight * (lately - speed_);
    last_seconds_ = now, last_done_ = done;
    if (loss == loss) loss_ = loss;
    return {done, all_, now, speed_, speed_ > 0 ? static_cast<double>(all_ - done) / speed_ : 0, rate, loss_};
  }

 private:
  static constexpr double kMemory = 5;  // seconds
  Stopwatch watch_;
  const int64_t all_;
  const double interval_;
  double last_seconds_ = 0, speed_ = 0, loss_ = 0;
  int64_t last_done_ = 0;
};

}  // namespace perigee
