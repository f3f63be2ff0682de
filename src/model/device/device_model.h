// A model's numbers on a GPU: parameters, states, the optimiser's slots. Host and device each have a copy, and one of them may be newer;
// it is brought over when the other side needs it, not before.
#pragma once

#include <memory>
#include <vector>

#include "src/device/gpu.h"
#include "src/model/plans/plan_set.h"

namespace perigee {

// Where plans keep their values while they run: training and evaluation are never on their way at once, being of one stream, so that they
// share one. What a run leaves there is gone with the next.
class DeviceArena {
 public:
  explicit DeviceArena(Gpu& gpu) : gpu_(gpu) {}
  void reserve(size_t bytes);  // waits for work that uses it if it grows
  std::byte* data() const { return memory_.data(); }
  size_t bytes() const { return memory_.bytes(); }
  int64_t generation() const { return generation_; }  // changes when it lies elsewhere

 private:
  Gpu& gpu_;
  GpuMemory memory_;
  int64_t generation_ = 0;
};

inline size_t half_block_bytes(const Params& params) { return static_cast<size_t>(params.block_elements()) * sizeof(uint16_t); }

class DeviceModel {
 public:
  // `slots` are the host's. All must outlive this. At first the host's numbers are the newer ones. `tuning`: what plans go by.
  DeviceModel(Gpu& gpu, Model& model, const std::vector<Storage>* slots, Tuning& tuning);

  Gpu& gpu() const { return gpu_; }
  Model& model() const { return model_; }
  Tuning& tuning() const { return tuning_; }
  DeviceArena& arena() { return arena_; }

  void to_device();  // uploads what the host changed
  void to_host();    // waits for the device and downloads what it changed: parameters and states
  void states_to_host();
  void slots_to_host();
  void host_changed() { parameters_newer_ = states_newer_ = Newer::host; }  // or may be about to change: call to_host() first
  void host_changed_states() { states_newer_ = Newer::host; }
  void host_changed_slots() { slots_newer_ = Newer::host; }
  void device_changed() { device_updated(), device_changed_states(); }
  void device_updated() { parameters_newer_ = slots_newer_ = Newer::device; }  // by an update, which rounds what it writes
  void device_changed_parameters() { parameters_newer_ = Newer::device, halves_old_ = true; }
  void device_changed_states() { states_newer_ = Newer::device; }
  void device_changed_slots() { slots_newer_ = Newer::device; }
  bool parameters_only_on_device() const { return parameters_newer_ == Newer::device; }

  std::byte* block() const { return block_.data(); }
  // The block in 16 bits, for plans of mixed precision; else no data. The update keeps it as new as the block; to_device() does so after
  // other changes on either side.
  View halves() const;
  void queue_rounding(CudaQueue& queue) const;
  std::byte* slot(size_t i) const { return slots_[i].data(); }
  size_t slots() const { return slots_.size(); }
  std::byte* states() const { return states_.data(); }
  void* parameter(const std::string& name) const;
  void* half(const std::string& name) const;
  void* state(const std::string& name) const;

 private:
  enum class Newer { neither, host, device };
  void bring_home(Newer* newer, std::byte* to, const std::byte* from, size_t bytes);

  Gpu& gpu_;
  Model& model_;
  const std::vector<Storage>* host_slots_;
  Tuning& tuning_;
  DeviceArena arena_;
  GpuMemory block_, halves_, states_;
  const Kernel* rounding_ = nullptr;  // of the block to 16 bits
  bool halves_old_ = false;
  std::vector<GpuMemory> slots_;
  Newer parameters_newer_ = Newer::host, states_newer_ = Newer::host, slots_newer_ = Newer::host;
};

// Plans of one kind bound to a device's memory, by shape; what PlanMemory is on the host.
class DevicePlans {
 public:
  // `gradient`: the device's block that gradients go to; null for inference.
  DevicePlans(DeviceModel& model, PlanSet& plans, std::byte* gradient);
  PlanRun& at(ShapeKey key);
  void renew(ShapeKey key);  // its plan is compiled again: the tuning table says something else than before
  // Changes when runs and addresses given before are no longer valid: after at() of a larger batch, or where a run has made room.
  int64_t generation() const { return generation_; }
  size_t bytes() const;  // but for the arena

 private:
  struct Bound {
    std::vector<GpuMemory> tables;
    GpuMemory packed;
    std::unique_ptr<PlanRun> run;
  };
  std::unique_ptr<Bound> bind(std::shared_ptr<const Plan> plan);

  DeviceModel& model_;
  PlanSet& plans_;
  std::byte* gradient_;
  LruMap<ShapeKey, std::unique_ptr<Bound>> runs_{kMostPlans};
  int64_t generation_ = 0, arena_generation_ = 0;
};

// The name of a plan's step in errors: "layer 'conv1' (1 of 6), op 'conv2d'".
std::string step_name(const PlanStep& step);

}  // namespace perigee
