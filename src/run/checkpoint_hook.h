// Saves a trainer's checkpoints on the job's schedule.
#pragma once

#include <string>

#include "src/run/checkpoint_writer.h"

namespace perigee {

// The files are written beside the training. A failed write (full disk) is a warning at the next step border, at most one a minute; training goes
// on and the older files stay. Copying large numbers takes the training's time: what is due while the writer is busy is taken when that one is
// free again, of the step at which it is. The best one, the last step's and those of less than `cheap_bytes` are copied at once; of small ones
// that wait the newest is written. A run whose job keeps checkpoints has its first after kFirstSeconds at the latest.
class CheckpointHook final : public Hook {
 public:
  static constexpr double kFirstSeconds = 8;
  static constexpr size_t kCheapBytes = size_t{1} << 20;

  CheckpointHook(const Config& options, const std::string& folder, double first_seconds = kFirstSeconds, size_t cheap_bytes = kCheapBytes);
  void on_start(Trainer& trainer) override;
  void on_step(Trainer& trainer, const StepReport& report) override;
  void on_epoch(Trainer& trainer, uint64_t epoch) override;
  // Now, whatever the schedule says, and waits for the file. Empty when it failed.
  std::string save(Trainer& trainer);
  // The two halves of it: what stands between them is done while the file is written.
  void begin_save(Trainer& trainer);
  std::string end_save(Trainer& trainer);
  // The epoch that just ended is the best one so far: its checkpoint is kept as that.
  void keep_best() { best_ = true; }
  // The run ends with a save: the planned last epoch needs no checkpoint of its own.
  void end_with_save() { ends_with_save_ = true; }
  // Waits until every file is written that is to be; tells what failed.
  void settle();
  // Another "checkpoint" of the job, from the next step on. Error(model).
  void change(const Config& options);
  CheckpointFolder& folder() { return folder_; }
  void set_extra(Json extra) { extra_ = std::move(extra); }

 private:
  bool may_copy(const Trainer& trainer);
  void keep(Trainer& trainer, CheckpointKinds kinds);
  void collect();
  void tell(const CheckpointResult& result);

  const double first_seconds_;
  const size_t cheap_bytes_;
  CheckpointSchedule schedule_;
  CheckpointFolder folder_;
  CheckpointWriter writer_;
  double started_ = 0, last_save_ = 0, last_warning_ = -1e9;
  bool best_ = false, kept_any_ = false, ends_with_save_ = false;
  bool owed_ = false;        // a newest one is due and not taken
  int64_t saved_step_ = -1;  // of begin_save(), and its file
  std::string saved_file_;
  Json extra_;
};

}  // namespace perigee
