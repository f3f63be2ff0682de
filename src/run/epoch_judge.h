// Judges an epoch after its evaluation: which epoch is the best so far, and whether the run ends early. From the job's
// "early_stopping" and "checkpoint.best"; and what "reduce_on_plateau" makes of the learning rate.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/job/job.h"
#include "src/model/evaluation.h"
#include "src/run/early_stopping.h"
#include "src/run/plateau.h"

namespace perigee {

class EpochJudge {
 public:
  // The task of a part of the data ("train", "validation", "test"); nothing where the job has no such part.
  using TaskOf = std::function<std::optional<EvaluationTask>(const std::string& part)>;
  // Error(model), with the script's line, when there is no evaluation of a name in "metrics", or when a rule watches a part that is not there
  // or a figure that nothing measures.
  EpochJudge(const Job& job, const TaskOf& task_of);

  // The parts of the data to evaluate after an epoch. The test part judges the end; it is looked at after each epoch only where
  // there is nothing else or a rule asks for it.
  const std::vector<std::string>& parts() const { return parts_; }
  bool stops_early() const { return stops_early_; }

  // After a step. The reason to stop, or empty.
  std::string after_step(double loss, double seconds) const { return stops_early_ ? rules_.after_step(loss, seconds) : ""; }
  // After epoch `epoch` (from 1), whose event holds the evaluations. The reason to stop, or empty.
  std::string after_epoch(int64_t epoch, const Json& event, double seconds);
  bool is_best(int64_t epoch) const;  // the epoch just judged is worth keeping
  // Early stopping keeps the best epoch, not the last one: true when the last one judged was not the best.
  bool prefers_earlier() const { return stops_early_ && !rules_.improved(); }
  int64_t best_epoch() const { return rules_.best_epoch(); }

  // By the numbers of another "early_stopping" with the same figure. Error(model).
  void change(const Config& early_stopping) { rules_.change(early_stopping); }

  // The factor on the learning rate from here on, and whether the last epoch changed it.
  double rate_factor() const { return plateau_.factor(); }
  bool rate_changed() const { return rate_changed_; }
  bool reduces_rate() const { return plateau_.active(); }

  Json state() const;
  void restore(const Json& state);

 private:
  void read(const Job& job, const TaskOf& task_of);
  bool watches(const std::string& part) const;

  EarlyStopping rules_;
  Plateau plateau_;
  bool stops_early_ = false, rate_changed_ = false;
  std::string best_metric_;
  std::vector<std::string> parts_;
};

}  // namespace perigee
