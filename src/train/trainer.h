// Trains a job on one machine: takes batches from the loader, has an engine (step_engine.h) make steps of them, and keeps the schedule, the
// progress and the hooks. It does not compute: where and how a step is made, on threads or on GPUs, is the engine's affair.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/model/evaluation.h"
#include "src/model/prediction.h"
#include "src/train/objectives.h"
#include "src/train/step_engine.h"
#include "src/train/weight_average.h"

namespace perigee {

// Where a run stands between two steps. All that a resume needs besides parameters and optimiser slots.
struct Position {
  uint64_t epoch = 0;    // of the next batch, from 0
  int64_t position = 0;  // of its first example in the epoch
  int64_t step = 0;      // steps made
  int64_t examples = 0;  // examples committed

  Json to_json() const;
  static Position from_json(const Config& config);
};

struct StepReport {
  int64_t step = 0;      // 1 for the first
  uint64_t epoch = 0;    // that the batch belonged to, from 0
  int64_t examples = 0;  // in the batch
  double weight = 0;     // their number, or the sum of their weights
  double loss = 0;       // mean over the batch, before the update
  double accuracy = -1;  // share of the batch classified rightly; -1 when the target is no class label
  double learning_rate = 0;
  double gradient_norm = -1;  // -1 when the optimiser does not need it
  bool epoch_ends = false;
  bool skipped = false;                         // the gradient overflowed in f16: parameters and states are what they were
  double loss_scale = 0;                        // after the step; 0: the precision needs none
  int64_t skipped_steps = 0;                    // so far
  int64_t evaluations = 0;                      // of the loss, where the step searched along a line
  std::span<const ObjectiveReport> objectives;  // of a job that has some; valid until the next step
};

class Trainer;
class Evaluator;
class Inference;
class LineSteps;
class RecordReader;

// A hook runs around steps: logging, checkpoints, averaging. Called on the training thread in the order of add_hook; a hook may read
// and, between steps, change the parameters. What a hook throws ends run() (step() for on_gradient).
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void on_start(Trainer&) {}
  // True: on_gradient is called in every step. Asked once, by add_hook.
  virtual bool wants_gradient() const { return false; }
  // The step's gradient, summed over `examples` examples of this process, in the layout and type of the parameter block; before clipping
  // and update. Where examples have weights, it is their weighted mean times `examples`. The hook may replace both (all-reduce). Of a gradient
  // that overflowed in f16 it is not told: the batch is computed again with a smaller loss scale.
  virtual void on_gradient(Trainer&, std::span<std::byte> /*gradient*/, int64_t& /*examples*/) {}
  // On a device run() queues the next step before it calls this for the one before: parameters and position() are then a step further.
  virtual void on_step(Trainer&, const StepReport&) {}
  virtual void on_epoch(Trainer&, uint64_t /*epoch that ended, from 0*/) {}
  virtual void on_end(Trainer&) {}
};

class Trainer {
 public:
  // Opens the data, builds and initialises the model. Error(data), Error(model).
  explicit Trainer(const Job& job, const TrainerOptions& options = {});
  ~Trainer();

  const Job& job() const { return t_.job; }
  // The caller may change the numbers; on a device they are brought home for that, and go back before the next step.
  Model& model();
  const Model& model() const;
  // The model's structure; its numbers may be older than the device's. And the states alone, as model() has all numbers.
  const Model& shape() const { return *t_.model; }
  std::span<std::byte> states();
  std::span<const std::byte> states() const;
  Optimizer& optimizer() { return *t_.optimizer; }
  const Optimizer& optimizer() const { return *t_.optimizer; }
  const DataSource& train_source() const { return *t_.source; }
  // The average that the job's "ema" or "swa" makes of the weights after each step; null: neither.
  WeightAverage* average();
  const WeightAverage* average() const;
  // The numbers of the network as it is judged, used and stored: the average's once it has begun, laid out as the model's.
  bool averaged() const { return t_.average && t_.average->ready(); }
  // While one lives, model() has these. Between steps; evaluate() sees to it by itself.
  class InUse {
   public:
    explicit InUse(Trainer& trainer);
    ~InUse();
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    Trainer* trainer_;  // null: its own numbers are in use
  };
  // The order of step(); a caller that brings batches of its own may use it in its own way (Loader::list).
  Loader& loader() { return *loader_; }
  const Batch& next_batch();  // of the loader; valid until the next call
  int threads() const { return t_.team.size(); }
  ThreadTeam& team() { return t_.team; }
  int64_t sub_batch() const { return engine_->sub_batch(); }
  Backend backend() const { return t_.options.backend; }
  int64_t batch() const { return t_.batch; }                 // of a step
  int64_t batch_at_once() const { return t_.at_once; }       // of one of the batches that the job accumulates
  bool steps_in_parts() const { return parts_ != nullptr; }  // each of these batches goes through the plans alone
  uint64_t seed() const { return t_.seed; }
  int64_t planned_examples() const { return planned_examples_; }  // 0: endless
  const Position& position() const { return position_; }
  PhaseTimes& times() { return t_.times; }  // of the training thread: where its time goes
  const PhaseTimes& times() const { return t_.times; }
  // The values that rows of batches carry to the next step; null where the network carries nothing.
  CarriedRows* carried() const { return engine_->carried(); }
  size_t optimizer_slots() const { return t_.slots.size() + (turns_ ? turns_->slots() : 0); }
  // "m", "v"; those of a second objective are "objective2/m".
  std::string slot_name(size_t i) const;
  // A method that searches along lines knows this beside its slots, for checkpoints; null: there is none.
  Json line_state() const;
  void restore_lines(const Config& state);
  LineSteps* lines() { return lines_.get(); }  // likewise
  // A slot has the layout and type of the parameter block.
  std::span<std::byte> optimizer_slot(size_t i);
  std::span<const std::byte> optimizer_slot(size_t i) const;

  bool finished() const;
  // One step: a batch, its gradient, the update. Error(data) from the source; Error(model) when the loss is not finite, naming
  // step and layer, with the parameters as they were before the step.
  // With precision "fp16" a gradient that is not finite skips the step (kernels/loss_scale.h).
  // When `cancel` becomes true before the update, the step is dropped: report.step is 0 and nothing has changed.
  StepReport step(const std::atomic<bool>* cancel = nullptr);
  // The same on a batch of the caller's: one tensor per field of the training source, contiguous. It counts as the next batch of
  // the epoch; its size and the loader's order do not matter to each other.
  StepReport step(const Batch& batch);
  // The same without an Error when the loss is not finite (parameters and position are then unchanged), for one of several replicas.
  StepOutcome try_step(const Batch& batch, StepReport* report, const std::atomic<bool>* cancel);

  // The parts of a step, for replicas that add up their gradients.
  // The gradient of the sum of the losses over `batch`, which may be empty; changes neither parameters nor position. Running
  // statistics that it assigns are kept for commit_states().
  // In a job with objectives, for the one of that number.
  GradientReport sum_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel = nullptr,
                              size_t objective = 0);
  // With precision "fp16" what overflows is computed again with a smaller loss scale, which the sum no longer has in it.
  void commit_states(size_t objective = 0);
  int64_t streams() const { return t_.streams; }  // lanes of the examples; 0: they stand alone
  // One update by the sum of the gradient over examples whose weights add up to `weight` (as many as they are, where none is given), of the
  // parameter block's layout and type; null: by what lies in device_gradient().
  void update(const std::byte* gradient_sum, double weight);
  // An objective's update, which makes no step of it: count_step() does, after those of all that have their turn.
  ObjectiveTurns* turns() { return turns_.get(); }  // null: the job has one loss
  void update_objective(size_t objective, const std::byte* gradient_sum, double weight);
  void count_step() { position_.step += 1; }
  StepProgress step_progress() const;  // of the next step
  // Whether examples or steps count differently, by lengths, masks, weights or a loss that ignores a class.
  bool weighted() const { return t_.weights->used(); }
  // The numbers on the device and the gradient there, for work on them between the parts of a step. Null without a GPU, and with several,
  // which each have their own.
  DeviceModel* device_model() const { return engine_->device_model(); }
  std::byte* device_gradient() const { return engine_->device_gradient(); }
  // Cuts the block into buckets of about `bytes`, in the order in which backward finishes them: exchange marks of the plans.
  void cut_gradient(size_t bytes);
  double next_learning_rate() const;                                                    // of the next update, by its schedule
  const std::vector<Optimizer::Range>& gradient_buckets() const { return t_.buckets; }  // elements; cover the block
  // Steps do not count in the average by themselves any more: the numbers count when the caller says so, for so many results and epochs from 1.
  void average_results() { averages_results_ = true; }
  void count_result(int64_t result, int64_t epoch, bool epoch_ends) { average_numbers(result, epoch, epoch_ends); }
  // Schedules look at examples committed, rules at updates made: what all replicas together have done.
  void set_position(const Position& position) { position_ = position; }
  void plan_examples(int64_t planned) { planned_examples_ = planned; }

  void add_hook(Hook* hook);
  // Steps until finished or `stop`, calling hooks. False when stopped.
  bool run(const std::atomic<bool>& stop);

  // Evaluates on a part of the job's data ("test", "validation", "train"): {"loss": ..., "accuracy": ..., ...} with the job's
  // metrics; null when the job has no such part. Stops early and returns null when `stop` becomes true.
  Json evaluate(const std::string& part, const std::atomic<bool>* stop = nullptr);
  bool has_part(const std::string& part) const { return t_.has_part(part); }
  Evaluator* evaluator(const std::string& part);  // opened on first use; null when the job has no such part
  Inference& inference();  // without loss, between steps and with an InUse, where the job trains; opened on first use
  // The same for records, also with what `layers` give (RecordPredictor); kept until others are asked for.
  RecordPredictor& record_predictor(const PredictionOptions& options);
  RecordReader record_reader() const;
  std::vector<std::string> class_names() const;  // of the target; empty where it has none

  // The run is a part of a longer one and begins there, with an epoch: steps, epochs and examples count on, while schedules and the job's length
  // count from here. Before the first step, and before restore().
  void begin_at(const Position& origin);
  const Position& origin() const { return origin_; }
  // Continues from a checkpoint: its position, its tuning table (null: keep) and its sub-batch (0: keep).
  void restore(const Position& position, const Json& tuning, int64_t sub_batch);
  // The values that the constructor gave: parameters by the seed, states, empty slots, the start of the run.
  void initialize_values();
  // Changes while the run trains, from the next step on; the job stays what it was. Nothing has changed after an Error.
  // By the numbers of "optimizer", "regularization" and "clip" in `job`, which is this one with other numbers. Error(model).
  void change_optimizer(const Json& job);
  void change_factors(const Json& given);  // as LossFactors::change(); not of objectives that take turns
  // Examples of a step. Error(usage) where steps are laid out for one size.
  void change_batch(int64_t batch);
  // By the "epochs" and "steps" of `job`. Error(model).
  void change_length(const Json& job);
  void set_rate_factor(double factor);  // on the rate and that of biases
  const Tuning& tuning() const;         // of all objectives' plans
  // Null where the precision needs none. It may wait for the device.
  const LossScale* loss_scale() const;
  void set_loss_scale(const LossScale& scale);
  // How many choices the constructor had to measure because this machine's table lacked them.
  int measured() const { return measured_; }

  // The trainer's memory, in bytes: parameters, gradients, slots, arenas.
  size_t memory_bytes() const { return engine_->bytes() + (turns_ ? turns_->bytes() : 0); }
  // The plans of a step: on the host for `sub_batch()` examples, on a device for as many as share_of() says.
  PlanSet& plans() { return engine_->plans(); }
  // The memory that this job takes or would take of a GPU, from plans alone; on the host as one of so many GPUs that train together.
  DeviceMemory planned_device_memory(int64_t gpus = 1) const { return engine_->planned_memory(gpus); }
  DeviceMemory device_memory() const { return engine_->device_memory(); }            // taken now of the first GPU; nothing on the host
  std::vector<DeviceTaken> device_taken() const { return engine_->device_taken(); }  // of each; none on the host
  int64_t share_of(int64_t batch) const { return engine_->share_of(batch); }         // the most examples of a batch that one GPU takes

 private:
  // A step that is queued, and where the run stood before it.
  struct Queued {
    StepReport report;
    Position before;
    int64_t averaged_before = 0;  // updates of the average
  };
  void count_steps(const Config& config);
  void add_to_average(const StepReport& report);
  void average_numbers(int64_t step, int64_t epoch, bool epoch_ends);
  bool averages_ahead() const;
  std::unique_ptr<Loader> make_loader(int64_t batch) const;
  // trainer_parts.cpp: steps of several batches
  struct Parts {
    std::optional<Storage> sum;     // of the gradients, laid out as the parameters; none where the engine adds up
    std::vector<std::byte> states;  // as before the step
    Batch batch;
    StepFigures figures;
    StepOutcome outcome = StepOutcome::done;
  };
  void make_parts();
  const Batch& part_of(const Batch& batch, int64_t begin, int64_t size);
  void step_in_parts(const StepTask& task);
  bool add_part(const StepTask& task, int64_t begin, int64_t size);
  bool adds_up_there(const StepTask& task) const { return engine_->adds_up() && !task.exchange; }
  size_t depth() const;
  void plan_from_here();
  StepEngine& engine_of(size_t objective);
  StepInfo step_info(const Batch& batch) const;
  void check_choices(const Batch& batch) const;
  double weight_of(const Batch& batch) const;
  Queued queue_step(const Batch& batch, const std::atomic<bool>* cancel);
  StepOutcome take_step(const Queued& step, StepReport* report);
  void exchange(std::span<std::byte> gradient, const Batch& batch);
  void advance(const Batch& batch, bool* epoch_ends);
  bool run_steps(const std::atomic<bool>& stop);
  bool take_queued(size_t leave);
  void finish_queued();
  bool last_step_comes() const;
  void need_no_step_ahead() const;
  void tell(const StepReport& report);
  Error non_finite();

  TrainingSetup t_;
  std::unique_ptr<StepEngine> engine_;
  std::unique_ptr<ObjectiveTurns> turns_;  // of the objectives after the first; null: the job has none
  StepFigures turn_figures_;
  StepOutcome turn_outcome_ = StepOutcome::done;
  std::unique_ptr<LineSteps> lines_;  // null: an update goes by one gradient
  std::unique_ptr<Parts> parts_;      // null: a step is one batch to the engine
  std::unique_ptr<Loader> loader_;
  std::vector<Hook*> hooks_;
  GradientExchange exchange_;                                     // by hooks; empty where none wants the gradient
  std::vector<Queued> queued_;                                    // of run(), the oldest first
  std::map<std::string, std::unique_ptr<Evaluator>> evaluators_;  // by part
  std::unique_ptr<Inference> inference_;
  std::unique_ptr<RecordPredictor> predictor_;
  PredictionOptions predictor_options_;
  int64_t planned_examples_ = 0, max_steps_ = 0, planned_epochs_ = 0;  // planned_epochs_ 0: steps alone count
  int measured_ = 0;
  bool averages_results_ = false;
  Position position_, origin_;
};

}  // namespace perigee
