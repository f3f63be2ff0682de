// When to stop before the planned end. The rules of Deeplearning4j's early stopping: conditions looked at after each evaluated
// epoch, and conditions looked at after each step.
#pragma once

#include <cstdint>
#include <string>

#include "src/core/config.h"

namespace perigee {

// {"metric": "validation.loss",     what is watched: "<part>.<figure>", also "train.loss" and "test.roc.auc"; default "test.loss"
//  "lower_is_better": true,         default: true for losses and errors (mse, mae, ece, error rates), false for anything else
//  "every_epochs": 1,               how often it is evaluated
//  "patience": 5,                   stop after so many evaluated epochs without an improvement
//  "min_improvement": 0,            a smaller change is no improvement
//  "best": 0.01,                    stop once the metric is this good
//  "max_epochs": 100, "max_seconds": 3600,
//  "max_loss": 1e4}                 stop when the training loss of a step exceeds it; NaN and infinity always stop
class EarlyStopping {
 public:
  EarlyStopping() = default;             // stops on NaN and infinity only
  EarlyStopping(const Config& options);  // every key read; the caller rejects unread ones

  const std::string& metric() const { return metric_; }
  bool lower_is_better() const { return lower_is_better_; }
  // The same watch with other numbers, which goes on where this one is.
  void change(const Config& options);
  bool due(int64_t epoch) const { return epoch % every_epochs_ == 0; }  // epochs count from 1

  // After a step. `seconds` is the time trained so far. The reason to stop, or empty.
  std::string after_step(double loss, double seconds) const;
  // After epoch `epoch` was evaluated. The reason to stop, or empty.
  std::string after_epoch(int64_t epoch, double value, double seconds);

  // The best epoch so far; 0 before the first.
  int64_t best_epoch() const { return best_epoch_; }
  double best_value() const { return best_value_; }
  bool improved() const { return improved_; }  // by the last after_epoch

  // So that a resumed run stops where an uninterrupted one would.
  Json state() const;
  void restore(const Json& state);

 private:
  bool better(double a, double b) const { return lower_is_better_ ? a < b : a > b; }

  std::string metric_ = "test.loss";
  bool lower_is_better_ = true;
  int64_t every_epochs_ = 1;
  int64_t patience_ = 1000000000;  // a thousand million: no limit
  double min_improvement_ = 0;
  bool has_target_ = false;
  double target_ = 0;
  int64_t max_epochs_ = 1000000000;
  double max_seconds_ = 0;  // 0: no limit
  bool has_max_loss_ = false;
  double max_loss_ = 0;

  int64_t best_epoch_ = 0;
  double best_value_ = 0;
  int64_t without_ = 0;  // evaluated epochs since the last improvement
  bool improved_ = false;
};

// "lower" for losses and errors, by the figure's name.
bool figure_is_error(const std::string& name);

}  // namespace perigee
