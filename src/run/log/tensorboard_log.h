// Parts of a run that TensorBoard shows beside its figures: the layers and settings, histograms of parameters and gradients, pictures of
// examples and of the confusion matrix. By the job's "log".
#pragma once

#include <string>

#include "src/data/loader.h"
#include "src/io/plot/tensorboard.h"
#include "src/train/trainer.h"

namespace perigee {

struct LogOptions {
  bool tensorboard = true;
  double histograms = 0;  // share of the run's time
  int64_t images = 0;
};
LogOptions log_options(const Job& job);

// Nothing here changes the training or ends the run: what goes wrong is a warning, once.
class TensorboardLog {
 public:
  TensorboardLog(const Job& job, TensorboardWriter& writer) : options_(log_options(job)), writer_(writer) {}

  void begin(Trainer& trainer);
  // Between two steps, after the run has trained for so long. `evaluation`: the last result of Trainer::evaluate, or null. Left out is what
  // would take more of the time than the job allows.
  void after_epoch(Trainer& trainer, const Json& evaluation, double seconds);
  // A run that was too short for after_epoch() to write anything has its parameters at the end.
  void end(Trainer& trainer);

 private:
  static constexpr int64_t kOften = 50;  // times; then half as often, and so on

  void layers(Trainer& trainer);
  void settings(Trainer& trainer);
  void examples(const Trainer& trainer);
  void confusion(const Json& evaluation, int64_t step);
  void parameters(const Trainer& trainer);
  void take_batch(Trainer& trainer);
  void gradients(Trainer& trainer);
  void histograms_of(const Trainer& trainer, const char* what, const std::byte* block, double scale);
  bool affordable(double cost, double seconds) const;
  bool is_due(const Trainer& trainer, double seconds) const;
  template <class Work>
  double timed(Work work);
  template <class Work>
  void quietly(Work work);

  LogOptions options_;
  TensorboardWriter& writer_;
  Batch batch_;                                              // whose gradient is shown
  const Trainer* read_for_ = nullptr;                        // that batch
  double spent_ = 0, numbers_cost_ = 0, matrix_cost_ = .05;  // seconds: in all, and of the last time
  int64_t epochs_ = 0, times_ = 0;
  bool shown_ = false, warned_ = false;  // shown: the examples
};

}  // namespace perigee
