// Makes the steps of a trainer where its numbers are: gradients, their sums, updates, figures. HostEngine does it on the threads of a
// team, DeviceEngine on GPUs; the trainer keeps the order of batches, the hooks, the schedules and the progress.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/data/loader.h"
#include "src/train/device/device_memory.h"
#include "src/train/training_setup.h"

namespace perigee {

class CarriedRows;
class DeviceModel;

// Where the sum of a batch's gradient goes: to[i] = add[n-1][i] + (... + (add[0][i] + gradient[i])), so that the gradients of many
// batches meet in a fixed tree.
struct GradientTarget {
  // A block of the parameters' layout and type; may be one of `add`. Null, with nothing to add: it stays where it is, on the one GPU.
  std::byte* to = nullptr;
  std::span<const std::byte* const> add;  // sums of batches before this one
  class GradientSink* sink = nullptr;     // told of buckets while the rest of the gradient is still computed; null: none
};

// Called on the thread that called sum_gradient.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual void on_bucket(size_t bucket) = 0;  // its part of the sum is complete and finite; must not throw
};

struct GradientReport {
  int64_t examples = 0;
  double weight = 0;  // the examples, or the sum of their weights
  double loss_sum = 0;
  int64_t correct = 0;
  bool finite = true, cancelled = false;  // otherwise the sum is of no use
  size_t buckets = 0;                     // of which the sink has been told
};

enum class StepOutcome { done, cancelled, not_finite };

// Replaces the gradient of a batch by what the update goes by, and tells the optimiser of the update.
using GradientExchange = std::function<void(std::span<std::byte> gradient, const Batch& batch)>;

// One step as the trainer asks for it. The batch outlives the step.
struct StepTask {
  const Batch& batch;
  StepInfo info;                               // but for the examples' ids
  StepProgress progress;                       // what schedules go by
  double weight = 0;                           // that the sum of the gradient is divided by: the examples, or the sum of their weights
  const GradientExchange* exchange = nullptr;  // null: the update goes by the batch's own gradient
  const std::atomic<bool>* cancel = nullptr;   // once true, a host drops a step that has not come to its update
};

struct StepFigures {
  double loss_sum = 0;
  int64_t correct = 0;
  double gradient_norm = -1;  // -1 when it was not measured
  bool overflowed = false;    // in f16: the step changed nothing but the loss scale
};

enum class Numbers : uint8_t { model, states, slots, average };  // model: parameters and states

class StepEngine {
 public:
  virtual ~StepEngine() = default;

  // Compiles the plans: at first, and when the optimiser or what is trained has changed. Error(resources) when there is no room.
  virtual void build() = 0;
  // Measures kernels and sub-batches on the loader's first batch; how many choices the tuning table lacked. The loader is at its start
  // again when this returns.
  virtual int measure(Loader& loader) = 0;
  // The tuning table is another one; `sub_batch` 0: as it is.
  virtual void retune(int64_t sub_batch) = 0;
  virtual void cut() = 0;  // the gradient into TrainingSetup::buckets

  // Steps in the order of queue(); at most depth() are queued and not taken. An engine of depth 1 makes the step in queue().
  virtual size_t depth() const { return 1; }
  virtual void queue(const StepTask& task) = 0;
  virtual StepOutcome take(StepFigures* figures) = 0;
  virtual void drop_queued() {}
  // After a step that was not finite: where the first NaN is, "layer 'a', op 'b'"; empty when it is not found again.
  virtual std::string find_non_finite() = 0;

  // The parts of a step, see Trainer. update() goes by what the optimiser was told; the gradient's norm, -1 when it was
  // not measured.
  virtual GradientReport sum_gradient(const Batch& batch, const StepInfo& info, const GradientTarget& target,
                                      const std::atomic<bool>* cancel) = 0;
  virtual double update(const std::byte* gradient_sum) = 0;
  virtual void commit_states() = 0;
  virtual void commit_carried() {}  // what rows carry, once all of a step's batches were computed

  // An engine whose numbers are not the host's may add up the gradients of a step's batches where they are. The first begins a sum; the last
  // leaves it where update(nullptr) looks for it.
  virtual bool adds_up() const { return false; }
  virtual GradientReport add_gradient(const Batch&, const StepInfo&, bool /*first*/, bool /*last*/, const std::atomic<bool>*) { return {}; }
  // And the average of the weights: queued behind the steps that are queued, and void with a step that is not finite.
  virtual bool averages() const { return false; }
  virtual void add_to_average(double /*share*/) {}

  virtual CarriedRows* carried() const { return nullptr; }  // once build() was called
  virtual int64_t sub_batch() const = 0;
  // The examples of a step that go into one batch. A host takes a slice of any batch in sub-batches, so that it has no need of smaller ones
  // where nothing looks at a batch as a whole.
  virtual int64_t most_at_once() const = 0;
  virtual PlanSet& plans() = 0;
  virtual size_t bytes() const = 0;                             // of everything that training holds where the numbers are
  virtual DeviceMemory planned_memory(int64_t gpus) const = 0;  // of one GPU

  // For an engine whose numbers are not the host's. fetch() brings what is newer there; host_changed() says that the host's are newer, or
  // are about to be.
  virtual void fetch(Numbers) const {}
  virtual void host_changed(Numbers) {}
  // For an engine that puts some of an update off: makes it, so that the model and the slots are what they are said to be.
  virtual void settle() const {}
  virtual void fetch_loss_scale() const {}
  virtual void loss_scale_changed() {}
  virtual bool holds_examples() const { return false; }  // batches need no fields then, their ids are enough
  virtual std::vector<DeviceModel*> device_models() const { return {}; }
  virtual DeviceModel* device_model() const { return nullptr; }  // of one GPU that trains alone, and so is the gradient
  virtual std::byte* device_gradient() const { return nullptr; }
  virtual int64_t share_of(int64_t batch) const { return batch; }
  virtual DeviceMemory device_memory() const { return {}; }
  virtual std::vector<DeviceTaken> device_taken() const { return {}; }
};

// By the options' backend. `training` must outlive it.
std::unique_ptr<StepEngine> make_engine(TrainingSetup& training);

// For engines. A whole gradient goes to its target, and the sink hears of all buckets at once.
void deliver(const TrainingSetup& training, const std::byte* gradient, const GradientTarget& target, GradientReport* report);
// Calls use() with the loader's first batch and puts the loader back to its start; with `zeros` examples of zeros where the source is live and
// has none yet.
void with_first_batch(const TrainingSetup& training, Loader& loader, int64_t zeros, const std::function<void(const Batch&)>& use);

}  // namespace perigee
