// A job made ready for steps: the job, its data, the model, the optimiser with its slots, the tuning table, the
// threads. A trainer makes one from its job; its engine (step_engine.h) works on it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/block_math.h"
#include "src/core/thread_team.h"
#include "src/core/trace.h"
#include "src/graph/tuning.h"
#include "src/job/job_parts.h"
#include "src/model/choice_check.h"
#include "src/model/losses/step_weights.h"
#include "src/model/model.h"
#include "src/train/loss_factors.h"
#include "src/train/loss_scale.h"
#include "src/train/trainer_options.h"
#include "src/train/weight_average.h"

namespace perigee {

// The parts of a job that say how to update.
OptimizerOptions optimizer_options(const Json& job);

struct TrainingSetup {
  // Opens the data and builds the model; initialises nothing. Error(data), Error(model).
  TrainingSetup(const Job& of, const TrainerOptions& chosen);
  // The setup of objective `i` of the job, with the data, the numbers and the network of the first one.
  TrainingSetup(const Job& of, size_t i, const TrainingSetup& first);

  void make_optimizer();
  // The values at the start of a run: parameters by the seed, states, empty slots.
  void initialize_values();
  bool has_part(const std::string& part) const;  // of the job's data
  SourcePtr open_part(const std::string& part, const Config& description) const;
  const std::vector<int>& fields() const { return read_fields; }  // of the source, that the model reads
  size_t bytes_of(int64_t elements) const { return static_cast<size_t>(elements) * model->params().width(); }  // of the block
  int64_t gpus() const { return options.backend == Backend::cuda ? static_cast<int64_t>(options.devices.size()) : 1; }
  std::string step_name(uint64_t step) const { return job.where() + ": step " + std::to_string(step + 1); }  // for errors

  Job job;  // of several objectives the first one's, with the whole list
  TrainerOptions options;
  Tuning tuning;
  ThreadTeam team;
  PhaseTimes times;  // of the training thread
  SourcePtr source;
  std::unique_ptr<Model> model;
  std::optional<ChoiceCheck> choices;  // of the source's examples
  std::optional<StepWeights> weights;  // likewise
  const BlockMath* math = nullptr;     // of the model's element type
  std::unique_ptr<Optimizer> optimizer;
  std::vector<Storage> slots;  // each has the layout and type of the parameter block
  std::vector<void*> slot_pointers;
  std::vector<int> input_fields;          // source field of each model input
  std::vector<int> target_fields;         // of the main target, then of further heads
  std::vector<int> read_fields;           // of fields_of() the model: inputs, targets, and what says how much they count
  std::vector<Optimizer::Range> buckets;  // of the gradient; empty until it is cut
  // Empty unless the precision is "fp16". While steps are on a device, the device's is newer.
  std::optional<LossScale> scale;
  // By the job's "ema" or "swa"; null: neither. While steps are on a device, the device's may be newer.
  std::unique_ptr<WeightAverage> average;
  LossFactors factors;  // as the engine's next step takes them
  int64_t streams = 0;  // lanes of the examples (src/data/streams.h); 0: they stand alone
  int64_t batch = 0;    // of one step: on several GPUs, of all of them
  int64_t at_once = 0;  // likewise, of one of the batches that "accumulate" makes a step of
  uint64_t seed = 0;
  std::optional<Objective> objective;  // empty: the job has one loss for all parameters

 private:
  void open();
  void choose_updates();
  void check_carried(const Config& data) const;
  void read_losses(const Config& config, ModelSpec* spec);
  void check_freeze(const Config& config) const;
  void scale_rates(const Config& config);
};

}  // namespace perigee
