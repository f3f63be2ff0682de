// A trainer's .safetensors files (src/ARCHITECTURE.md, "Formats"). A model (src/model/model_file.h) has parameters and states;
// a checkpoint also has the optimiser's slots under "optimizer/<slot>/" and the position, and a resumed run ends bit-equal to one that never
// stopped.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/model/model_file.h"
#include "src/train/trainer.h"

namespace perigee {

// A block like the parameters' that belongs to a checkpoint beside the trainer: its tensors are "<name>/<parameter>".
struct NamedBlock {
  std::string name;
  std::span<std::byte> bytes;
};

// Both write to a temporary file, sync and rename: on Error(resources) (full disk) an old file at `path` is intact.
void save_model(const Trainer& trainer, const std::string& path);
// `extra`: what else the run wants back (early stopping, best metric); any JSON.
void save_checkpoint(const Trainer& trainer, const std::string& path, const Json& extra = {});

// Puts parameters, states, slots and position back; returns `extra`. The file is checked whole before anything is changed.
// Error(model) naming file and tensor when it is damaged or is of another network.
Json load_checkpoint(Trainer& trainer, const std::string& path);

// The same in memory. `keep_plans`: the trainer keeps its kernels and sub-batches, whatever the checkpoint was made with. `beside` is written
// and loaded with the rest; a checkpoint that lacks one of its blocks is refused.
std::vector<std::byte> checkpoint_bytes(const Trainer& trainer, const Json& extra = {}, std::span<const NamedBlock> beside = {});
Json load_checkpoint(Trainer& trainer, std::span<const std::byte> bytes, const std::string& where, bool keep_plans = false,
                     std::span<const NamedBlock> beside = {});

// A model file in memory.
std::vector<std::byte> model_bytes(const Trainer& trainer);

// Loads parameters (and states) of the same names and shapes from a model file: transfer learning. `job` is the job's
// "pretrained" object: {"model": path, "freeze": ["conv*"], "skip": ["dense2.*"]}. Patterns: '*' stands for any characters.
// Error(model) when a tensor that is not skipped is missing or has another shape. Call before training. `opener` says where the file
// lies; null: in `folder`, or anywhere.
void apply_pretrained(Trainer& trainer, const Config& pretrained, const std::string& folder, SourceOpener* opener = nullptr);

// A folder of checkpoints "step-000001234.safetensors": keeps the newest `keep`, and "best.safetensors" beside them. A step that was
// written before, and is greater than that of a new checkpoint, is of training that was given up: its file becomes "void-step-...".
class CheckpointFolder {
 public:
  CheckpointFolder(std::string folder, int keep) : folder_(std::move(folder)), keep_(keep) {}

  // Writes the trainer's checkpoint and removes what is too old. Returns the file. Error(resources) leaves what was there.
  std::string save(const Trainer& trainer, const Json& extra = {});
  void save_best(const Trainer& trainer, const Json& extra = {});
  // The same for a checkpoint that another process has made: the bytes of its file.
  std::string add(std::span<const std::byte> checkpoint, int64_t step);
  void add_best(std::span<const std::byte> checkpoint);
  // Newest first.
  std::vector<std::string> files() const;
  // Loads the newest that is whole, walking back over damaged ones (each is warned about). Empty when there is none.
  // Error(model) when there are files but none can be loaded.
  std::string resume(Trainer& trainer, Json* extra = nullptr);

 private:
  std::string file_of(int64_t step) const;
  void set_aside_after(const std::string& newest);
  void remove_old();
  std::string folder_;
  int keep_;
};

// When to save, from the job's "checkpoint": {"every_epochs": 1, "every_steps": 0, "every_seconds": 0, "keep": 3}.
struct CheckpointSchedule {
  explicit CheckpointSchedule(const Config& options);
  // In (last, step] there is a multiple of every_steps, or so many seconds have passed since the last one.
  bool due_after_step(int64_t last, int64_t step, double seconds_since) const;
  bool due_after_epoch(int64_t epoch) const { return every_epochs > 0 && epoch % every_epochs == 0; }  // from 1
  int keep;
  int64_t every_epochs, every_steps;
  double every_seconds;
};

// Saves on the job's schedule. A failed write (full disk) is a warning, at most one a minute; training goes on and the older files stay.
class CheckpointHook final : public Hook {
 public:
  CheckpointHook(const Config& options, const std::string& folder);
  void on_start(Trainer& trainer) override;
  void on_step(Trainer& trainer, const StepReport& report) override;
  void on_epoch(Trainer& trainer, uint64_t epoch) override;
  // Now, whatever the schedule says. Empty when it failed.
  std::string save(Trainer& trainer);
  CheckpointFolder& folder() { return folder_; }
  void set_extra(Json extra) { extra_ = std::move(extra); }

 private:
  CheckpointSchedule schedule_;
  CheckpointFolder folder_;
  double last_save_ = 0, last_warning_ = -1e9;
  Json extra_;
};

}  // namespace perigee
