// Where a run's checkpoints lie, and when one is due.
#pragma once

#include <string>
#include <vector>

#include "src/run/checkpoint.h"

namespace perigee {

// A folder of checkpoints "step-000001234.safetensors": keeps the newest `keep`, and "best.safetensors" beside them. A step that was
// written before, and is greater than that of a new checkpoint, is of training that was given up: its file becomes "void-step-...".
class CheckpointFolder {
 public:
  CheckpointFolder(std::string folder, int keep) : folder_(std::move(folder)), keep_(keep) {}

  // Writes a checkpoint and removes what is too old. Returns the file. Error(resources) leaves what was there.
  std::string save(const Trainer& trainer, const Json& extra = {});
  std::string add(const CheckpointSnapshot& snapshot);
  void add_best(const CheckpointSnapshot& snapshot);
  // The same for a checkpoint that another process has made: the bytes of its file.
  std::string add(std::span<const std::byte> checkpoint, int64_t step);
  void add_best(std::span<const std::byte> checkpoint);
  void set_keep(int keep) { keep_ = keep; }  // while no checkpoint is being written
  // Newest first.
  std::vector<std::string> files() const;
  // Loads the newest that is whole, walking back over damaged ones (each is warned about). Empty when there is none.
  // Error(model) when there are files but none can be loaded.
  std::string resume(Trainer& trainer, Json* extra = nullptr);

 private:
  std::string file_of(int64_t step) const;
  std::string best_file() const { return folder_ + "/best.safetensors"; }
  std::string written(std::string file);
  void set_aside_after(const std::string& newest);
  void remove_old();
  void remove_temporaries();
  std::string folder_;
  int keep_;
  bool swept_ = false;  // of temporaries
};

// When to save, from the job's "checkpoint": {"every_epochs": 1, "every_steps": 0, "every_seconds": 0, "keep": 3}.
struct CheckpointSchedule {
  explicit CheckpointSchedule(const Config& options);
  // In (last, step] there is a multiple of every_steps, or so many seconds have passed since the last one.
  bool due_after_step(int64_t last, int64_t step, double seconds_since) const;
  bool due_after_epoch(int64_t epoch) const { return every_epochs > 0 && epoch % every_epochs == 0; }  // from 1
  bool any() const { return every_epochs > 0 || every_steps > 0 || every_seconds > 0; }                // not at the end alone
  int keep;
  int64_t every_epochs, every_steps;
  double every_seconds;
};

}  // namespace perigee
