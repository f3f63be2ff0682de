// A trainer's .safetensors files (src/ARCHITECTURE.md, "Formats"). A model (src/model/model_file.h) has parameters and states;
// a checkpoint also has the optimiser's slots under "optimizer/<slot>/" and the position, and a resumed run ends bit-equal to one that never
// stopped. Where the job averages weights, a checkpoint's model is the average as well, and the numbers that train are under "training/".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

// That which changes from step to step beside the numbers.
struct CheckpointMoment {
  Position position;
  int64_t sub_batch = 0;
  int64_t averaged = 0;  // updates of the weights' average
  std::optional<LossScale> scale;
  Json lines;  // of a method that searches along lines
  Json extra;
};

// The checkpoint of a trainer as it was at a step border, in memory of its own: take() copies the numbers, and write() makes the file of them
// later, on any thread. Taken again, it uses its memory again.
class CheckpointSnapshot {
 public:
  void take(const Trainer& trainer, const Json& extra);
  void write(const std::string& path) const;  // as save_checkpoint()
  int64_t step() const { return moment_.position.step; }
  static size_t bytes_of(const Trainer& trainer);

 private:
  void lay_out(const Trainer& trainer);

  bool averaged_ = false;             // they are of an average, and those that train lie behind
  const Trainer* trainer_ = nullptr;  // whose layout and facts it has
  std::shared_ptr<Storage> numbers_;  // parameters, states, slots
  std::vector<NamedTensor> tensors_;  // windows on them
  Metadata metadata_;
  uint64_t tuning_changes_ = 0;
  CheckpointMoment moment_;
};

}  // namespace perigee
