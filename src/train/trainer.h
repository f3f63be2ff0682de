// Trains a job on one machine: loader, plans, optimiser, hooks. Each thread of its team owns a slice of every batch and takes it
// through forward and backward in sub-batches; gradients meet in a fixed tree and the update is cut across the threads.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/block_math.h"
#include "src/core/thread_team.h"
#include "src/core/trace.h"
#include "src/data/loader.h"
#include "src/graph/tuning.h"
#include "src/job/job.h"
#include "src/model/evaluation.h"
#include "src/model/model.h"
#include "src/train/loss_scale.h"

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
  double loss = 0;       // mean over the batch, before the update
  double accuracy = -1;  // share of the batch classified rightly; -1 when the target is no class label
  double learning_rate = 0;
  double gradient_norm = -1;  // -1 when the optimiser does not need it
  bool epoch_ends = false;
  bool skipped = false;       // the gradient overflowed in f16: parameters and states are what they were
  double loss_scale = 0;      // after the step; 0: the precision needs none
  int64_t skipped_steps = 0;  // so far
};

class Trainer;
class Evaluator;
class Inference;
class GpuGroup;
class DeviceModel;
class DeviceTeam;
struct DeviceMemory;
struct DeviceTaken;

// What happens around steps: logging, checkpoints, averaging. Called on the training thread in the order of add_hook; a hook may read
// and, between steps, change the parameters. What a hook throws ends run() (step() for on_gradient).
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void on_start(Trainer&) {}
  // True: on_gradient is called in every step. Asked once, by add_hook.
  virtual bool wants_gradient() const { return false; }
  // The step's gradient, summed over `examples` examples of this process, in the layout and type of the parameter block; before clipping
  // and update. The hook may replace both (all-reduce). Of a gradient that overflowed in f16 it is not told: the batch is computed again with
  // a smaller loss scale.
  virtual void on_gradient(Trainer&, std::span<std::byte> /*gradient*/, int64_t& /*examples*/) {}
  // On a device run() queues the next step before it calls this for the one before: parameters and position() are then a step further.
  virtual void on_step(Trainer&, const StepReport&) {}
  virtual void on_epoch(Trainer&, uint64_t /*epoch that ended, from 0*/) {}
  virtual void on_end(Trainer&) {}
};

// Where the sum of a batch's gradient goes: to[i] = add[n-1][i] + (... + (add[0][i] + gradient[i])), so that the gradients of many
// batches meet in a fixed tree.
struct GradientTarget {
  // Of the parameter block's layout and type; may be one of `add`. Null, with nothing to add: it stays where it is, on the one GPU.
  std::byte* to = nullptr;
  std::span<const std::byte* const> add;  // sums of batches before this one
  class GradientSink* sink = nullptr;     // told of buckets while the rest of the gradient is still computed; null: nobody
};

// Called on the thread that called sum_gradient.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual void on_bucket(size_t bucket) = 0;  // its part of the sum is complete and finite; must not throw
};

struct GradientReport {
  int64_t examples = 0;
  double loss_sum = 0;
  int64_t correct = 0;
  bool finite = true, cancelled = false;  // otherwise the sum is of no use
  size_t buckets = 0;                     // of which the sink has been told
};

enum class StepOutcome { done, cancelled, not_finite };

// Opens a part ("train", "test") of a job's data instead of open_source: examples that another node reads (data.at = "coordinator").
class SourceOpener {
 public:
  virtual ~SourceOpener() = default;
  virtual SourcePtr open(const std::string& part, const Config& description, const std::string& folder) = 0;
  // Where a file lies that the job names beside its data, as a model to start from. `where` names it in errors.
  virtual std::string locate(const std::string& path, const std::string& where, const std::string& folder);
};

struct TrainerOptions {
  int threads = 0;  // 0: the job's, or one per core
  Backend backend = Backend::cpu;
  std::vector<int> devices = {0};  // of Backend::cuda: the GPUs that train together, each with the job's batch
  bool check = false;              // compare every kernel with ref; step() throws at the first that disagrees
  int64_t sub_batch = 0;           // examples that a thread takes through the plan at once; 0: chosen by measuring
  // False: nothing is measured and this machine's table is not read. What `tuning` does not say is a function of the job and the
  // threads alone, so that trainers on like machines give the same bits.
  bool measure = true;
  Json tuning;                     // choices that come before those of this machine's table; null: none
  SourceOpener* opener = nullptr;  // null: open_source; outlives the trainer
  TraceRing* trace = nullptr;      // of the timeline; null: none; outlives the trainer
  int64_t blocks_beside = 0;       // of the parameters' size, that somebody else will take of the GPU: no data set lies there
  int64_t shards = 1;              // of the order of the training data, which is a worker's: LoaderOptions::shards
};

class Trainer {
 public:
  // Opens the data, builds and initialises the model. Error(data), Error(model).
  explicit Trainer(const Job& job, const TrainerOptions& options = {});
  ~Trainer();

  const Job& job() const { return job_; }
  // The caller may change the numbers; on a device they are brought home for that, and go back before the next step.
  Model& model();
  const Model& model() const;
  // What it is made of; its numbers may be older than the device's. And the states alone, as model() has all numbers.
  const Model& shape() const { return *model_; }
  std::span<std::byte> states();
  std::span<const std::byte> states() const;
  Optimizer& optimizer() { return *optimizer_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  const DataSource& train_source() const { return *train_; }
  // The order of step(); whoever brings batches of its own may use it in its own way (Loader::list).
  Loader& loader() { return *loader_; }
  const Batch& next_batch();  // of the loader; valid until the next call
  int threads() const { return team_.size(); }
  ThreadTeam& team() { return team_; }
  int64_t sub_batch() const { return sub_batch_; }
  Backend backend() const { return options_.backend; }
  int64_t batch() const { return batch_; }
  uint64_t seed() const { return seed_; }
  int64_t planned_examples() const { return planned_examples_; }  // 0: endless
  const Position& position() const { return position_; }
  PhaseTimes& times() { return times_; }  // of the training thread: where its time goes
  const PhaseTimes& times() const { return times_; }
  size_t optimizer_slots() const { return slots_.size(); }
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
  GradientReport sum_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel = nullptr);
  // With precision "fp16" what overflows is computed again with a smaller loss scale, which the sum no longer has in it.
  void commit_states();
  // One update by the sum of the gradient over `examples` examples, of the parameter block's layout and type; null: by what lies in
  // gradient_there().
  void update(const std::byte* gradient_sum, int64_t examples);
  // For who works where the numbers are, between the parts of a step: those on the device and the gradient there. Null without a GPU, and
  // with several, which each have their own.
  DeviceModel* model_there() const;
  std::byte* gradient_there() const;
  // Cuts the block into buckets of about `bytes`, in the order in which backward finishes them: exchange marks of the plans.
  void cut_gradient(size_t bytes);
  double next_learning_rate() const;                                                  // of the next update, by its schedule
  const std::vector<Optimizer::Range>& gradient_buckets() const { return buckets_; }  // elements; cover the block
  // Schedules look at examples committed, rules at updates made: what all replicas together have done.
  void set_position(const Position& position) { position_ = position; }
  void plan_examples(int64_t planned) { planned_examples_ = planned; }

  void add_hook(Hook* hook) {
    hooks_.push_back(hook);
    exchange_ = exchange_ || hook->wants_gradient();
  }
  // Steps until finished or `stop`, calling hooks. False when stopped.
  bool run(const std::atomic<bool>& stop);

  // Evaluates on a part of the job's data ("test", "validation", "train"): {"loss": ..., "accuracy": ..., ...} with the job's
  // metrics; null when the job has no such part. Stops early and returns null when `stop` becomes true.
  Json evaluate(const std::string& part, const std::atomic<bool>* stop = nullptr);
  bool has_part(const std::string& part) const;
  Evaluator* evaluator(const std::string& part);  // opened on first use; null when the job has no such part
  Inference& inference();                         // without loss, between steps, where the job trains; opened on first use

  // Continues from a checkpoint: its position, its tuning table (null: keep) and its sub-batch (0: keep).
  void restore(const Position& position, const Json& tuning, int64_t sub_batch);
  // The values that the constructor gave: parameters by the seed, states, empty slots, the start of the run.
  void initialize_values();
  // Parameters that no longer change, by index; their gradients are no longer computed.
  void freeze(const std::vector<bool>& frozen);
  // From the next step on, instead of the job's "optimizer.lr": a number or a schedule. Error(model). The job stays what it was.
  void set_learning_rate(const Json& schedule);
  const Tuning& tuning() const { return tuning_; }
  // Null where the precision needs none. It may wait for the device.
  const LossScale* loss_scale() const;
  void set_loss_scale(const LossScale& scale);
  // How many choices the constructor had to measure because this machine's table lacked them.
  int measured() const { return measured_; }

  // What the trainer holds, in bytes: parameters, gradients, slots, arenas.
  size_t memory_bytes() const;
  // Of a step's plans: on the host of `sub_batch()` examples, on a device of what share_of() says.
  PlanSet& plans() { return *plans_; }
  // What this job takes or would take of a GPU, from plans alone; on the host as one of so many GPUs that train together.
  DeviceMemory planned_device_memory(int64_t gpus = 1) const;
  DeviceMemory device_memory() const;             // what is taken now of the first GPU; nothing on the host
  std::vector<DeviceTaken> device_taken() const;  // of each; none on the host
  int64_t share_of(int64_t batch) const;          // the most examples of a batch that one GPU takes

 private:
  struct BoundPlan;
  struct Worker;
  void prepare(int64_t examples);  // plans for a batch of so many examples
  BoundPlan bind_plan(PlanRun& run) const;
  void bind_rows(const BoundPlan& plan, const Batch& batch, int64_t row) const;
  struct Gathering;  // of one sum_gradient
  void compute_slice(Team& team, const Batch& batch, const StepInfo& base, Gathering* gathering = nullptr);
  void run_with_marks(Team& team, const BoundPlan& plan, const StepInfo& info, bool accumulate, Gathering& gathering);
  void gather_bucket(Team& team, Gathering& gathering);
  std::vector<size_t> marks_of(const Plan& plan) const;
  // The sum of the gradients of threads [first, first + span) in a fixed tree, of at most kUpdateChunk elements: in memory of
  // `worker`, so that no thread writes what lies in another one's cache.
  const std::byte* sum_gradients(Worker& worker, size_t first, size_t span, size_t buffer, Optimizer::Range chunk) const;
  void merge_gradients(int rank, Optimizer::Range range);  // into the first thread's block
  // Whether somebody must see the whole sum before the update; else each chunk is summed just before its update.
  size_t bytes_of(int64_t elements) const { return static_cast<size_t>(elements) * model_->params().width(); }  // of the block
  bool merges_first() const { return exchange_ || optimizer_->needs_norms() || scale_; }
  void exchange(const Batch& batch);
  StepProgress step_progress() const;
  void begin_update(int64_t examples, double seed = 1);
  void update_slice(Team& team, const std::byte* whole_gradient);
  SourcePtr open_part(const std::string& part, const Config& description) const;
  void read_losses(const Config& config, ModelSpec* spec);
  void make_optimizer();
  void make_plans();
  size_t room_of_host() const;
  void measure();  // kernels, then the sub-batch
  void choose_sub_batch();
  int64_t sub_batch_for(int64_t slice) const;
  StepOutcome step_on(const Batch& batch, StepReport* report);
  std::optional<StepOutcome> attempt(const Batch& batch, StepReport* report);  // empty: the gradient overflowed, and is wanted
  // Of precision "fp16" (trainer_scaling.cpp).
  void set_seed(int64_t examples);
  bool overflows(Team& team, bool unscale);
  StepOutcome move_scale();
  GradientReport scaled_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel);
  void deliver(const std::byte* gradient, const GradientTarget& target, GradientReport* report) const;
  // On a device (trainer_device.cpp).
  struct Ahead;  // a step that is queued
  void make_device();
  struct DeviceShare;  // of one GPU
  DeviceShare share_here(int64_t examples) const;
  std::string smaller_batch(int64_t share) const;
  DeviceMemory plan_device(PlanSet* training, PlanSet* evaluation, const DeviceShare& share, bool resident) const;
  size_t share_out(PlanSet& evaluation, DeviceMemory* need);
  Error no_room(const Error& error, int64_t examples) const;
  template <class Act>
  auto with_room(int64_t examples, Act act) {
    try {
      return act();
    } catch (const Error& error) {
      throw no_room(error, examples);
    }
  }
  Ahead queue_step(const Batch& batch);
  StepOutcome take_step(const Ahead& step, StepReport* report);
  struct DeviceReport compute_on_device(const Batch& batch, const std::atomic<bool>* cancel, bool bring_home = true);
  StepOutcome device_step_on(const Batch& batch, StepReport* report);
  void exchange_on_device(const Batch& batch);
  bool run_ahead(const std::atomic<bool>& stop);
  bool run_ahead(const std::atomic<bool>& stop, std::deque<Ahead>& queued);
  void need_no_step_ahead() const;
  bool last_step_comes() const;
  GradientReport device_buckets(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel);
  GradientReport device_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel);
  void advance(const Batch& batch, bool* epoch_ends);
  StepReport report_of(const Batch& batch) const;
  void check_kernels() const;
  Error non_finite(const Batch& batch);

  Job job_;
  TrainerOptions options_;
  Tuning tuning_;
  int measured_ = 0;
  ThreadTeam team_;
  PhaseTimes times_;
  SourcePtr train_;
  std::unique_ptr<Model> model_;
  const BlockMath* math_ = nullptr;  // of the model's element type
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<PlanSet> plans_;
  std::vector<std::unique_ptr<Worker>> workers_;  // none on a device
  std::vector<Storage> slots_;
  std::vector<void*> slot_pointers_;
  std::unique_ptr<GpuGroup> gpus_;  // of Backend::cuda, else null
  std::unique_ptr<DeviceTeam> device_;
  std::vector<std::byte> device_gradient_;  // the host's copy of a gradient
  std::unique_ptr<Loader> loader_;
  std::vector<Hook*> hooks_;
  std::vector<Optimizer::Range> buckets_;
  std::vector<int> input_fields_;   // source field of each model input
  std::vector<int> target_fields_;  // of the main target, then of further heads
  const std::atomic<bool>* cancel_ = nullptr;
  std::map<std::string, std::unique_ptr<Evaluator>> evaluators_;  // by part
  std::unique_ptr<Inference> inference_;
  int64_t batch_ = 0, sub_batch_ = 0, prepared_ = -1, planned_examples_ = 0, epochs_ = 0, max_steps_ = 0;
  uint64_t seed_ = 0;
  Position position_;
  bool collective_ = false, sliceable_ = true, exchange_ = false;
  bool in_step_ = false;  // the slices of the prepared batch meet inside the plan
  std::exception_ptr exchange_error_;
  mutable std::optional<LossScale> scale_;  // of precision "fp16"; a device's is newer while steps are on it
  float seed_value_ = 1;
  std::vector<float> seeds_;  // the plans' input
  std::atomic<bool> overflow_{false};
};

}  // namespace perigee
