// The memory of training steps on a GPU: the gradient, the words that stop a step, batches gathered there, and two slots, each a buffer that
// the host fills and sends while the step before runs, and the figures that come back. It says where things lie, not what is done with them.
#pragma once

#include <array>
#include <compare>
#include <vector>

#include "src/data/loader.h"
#include "src/device/gpu.h"
#include "src/train/device/device_memory.h"
#include "src/train/loss_factors.h"

namespace perigee {

enum class StepPart : uint8_t { whole, compute, update };

// One GPU's work in a step: equal works share their graphs.
struct StepWork {
  StepPart part = StepPart::whole;
  int64_t examples = 0;
  bool gather = false;  // else the fields are in the slot's buffer
  int64_t of = 0;       // examples of all GPUs together; 0: this one is alone
  int64_t first = 0;    // its first row, where rows carry from step to step
  auto operator<=>(const StepWork&) const = default;
};

struct StepSlot {
  size_t number = 0;
  GpuHandle pinned, record, copied, done;
  GpuMemory device;
  StepWork work;
};

class StepBuffers {
 public:
  static constexpr uint64_t kInFlight = 2;

  // `fields` of the source are the model's inputs, its target, those of further heads. `scaled`: the loss is.
  StepBuffers(Gpu& gpu, const Model& model, const Optimizer& optimizer, const DataSource& source, std::vector<int> fields, bool scaled);

  // Shared sums and states of one of several GPUs.
  void join_team(const Params& params);
  struct StateRun {
    size_t begin = 0;   // byte of the state segment
    size_t shared = 0;  // byte of shared_states()
    int64_t elements = 0;
    Dtype dtype = Dtype::f32;
    Dtype sum_dtype() const { return dtype == Dtype::i64 ? Dtype::i64 : Dtype::f64; }
  };
  const std::vector<StateRun>& state_runs() const { return state_runs_; }  // of one dtype each

  StepSlot& slot(uint64_t step) { return slots_[step % kInFlight]; }
  const StepSlot& slot(uint64_t step) const { return slots_[step % kInFlight]; }
  const std::vector<int>& fields() const { return fields_; }

  // Whether the slot's buffer, and the memory that its batch is gathered to, are large enough; what makes them so moves them, so that no graph
  // may know the old ones.
  bool holds(const StepSlot& slot, const StepWork& work) const { return slot.device.bytes() >= layout_of(work).total; }
  void grow(StepSlot& slot, const StepWork& work);
  bool gathers(const StepWork& work) const;
  void grow_gathered(const StepWork& work);

  StepLayout layout_of(const StepWork& work) const;
  // fill() sends these factors of the loss, as they are then; must outlive this.
  void take_factors(const LossFactors& factors) { factors_ = &factors; }
  // Writes the batch's rows from `first` on into the slot's host buffer; all but the update's image.
  void fill(const StepSlot& slot, const StepWork& work, const Batch& batch, const StepInfo& info, int64_t first);
  void send(StepSlot& slot, const StepWork& work);  // beside the step before; what is queued from now on finds it

  std::byte* host(const StepSlot& slot) const { return static_cast<std::byte*>(slot.pinned.get()); }
  CudaStepRecord* record(const StepSlot& slot) const { return static_cast<CudaStepRecord*>(slot.record.get()); }
  CudaUpdate* image(const StepSlot& slot) const { return reinterpret_cast<CudaUpdate*>(slot.device.data() + layout_of({}).update); }
  const StepInfo* info(const StepSlot& slot) const { return reinterpret_cast<const StepInfo*>(slot.device.data()); }
  int32_t* stopped() const { return reinterpret_cast<int32_t*>(words_.data()); }
  int64_t* counter() const { return reinterpret_cast<int64_t*>(words_.data() + 8); }

  const GpuMemory& gradient() const { return gradient_; }
  const GpuMemory& words() const { return words_; }
  const GpuMemory& shares() const { return shares_; }  // three f64: sums of losses, of correct, of stops
  const GpuMemory& shared_states() const { return shared_states_; }
  const GpuMemory& scale() const { return scale_; }  // a CudaLossScale; empty where nothing is scaled
  const GpuMemory& gathered(size_t field) const { return gathered_[field]; }
  size_t image_bytes() const { return image_bytes_; }
  size_t batch_bytes() const;  // of slots and gathered batches

 private:
  Gpu& gpu_;
  const Model& model_;
  const LossFactors* factors_ = nullptr;
  std::vector<int> fields_;
  std::vector<size_t> row_bytes_;  // by field
  size_t image_bytes_;
  GpuMemory gradient_, words_;        // words: stopped, counter
  GpuMemory shares_, shared_states_;  // of one of several GPUs
  GpuMemory scale_;
  std::vector<StateRun> state_runs_;
  std::vector<GpuMemory> gathered_;  // by field
  std::array<StepSlot, kInFlight> slots_;
};

}  // namespace perigee
