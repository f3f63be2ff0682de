// TrainingSetup steps on the GPUs of this process, one or several. Of several each takes its rows of a batch through forward and backward, as a
// thread of a CPU takes its slice; gradients, figures and running statistics are added up between them, and each updates its own copy of the
// parameters, with the same bits. Gradients are added up in buckets while the rest is still computed.
//
// With NCCL a whole step is one captured graph of each GPU, sums included: a sum runs beside whatever does not need it, and so may a GPU's own
// pieces (device_work.h). Without, or with `deterministic`, it is a graph for each bucket, and the sums are queued between them. One thread
// works with all GPUs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/device/gpu_group.h"
#include "src/train/device/device_step.h"

namespace perigee {

class DeviceTeam {
 public:
  // All but `scale` (of precision "fp16", else null) must outlive this; the rest is as DeviceStep has it.
  DeviceTeam(GpuGroup& gpus, Model& model, const std::vector<Storage>* slots, PlanSet& plans, Optimizer& optimizer,
             const DataSource& source, const std::vector<int>& fields, uint64_t seed, Tuning& tuning, const LossScale* scale,
             size_t data_room, int64_t streams);
  ~DeviceTeam();

  // The first GPU's numbers: those of all.
  DeviceModel& model() { return members_[0]->model; }
  std::vector<DeviceModel*> models();  // of each GPU: for evaluation, which all of them do
  void reserve(size_t bytes);          // of arenas
  void host_changed();
  void host_changed_states();
  void host_changed_slots();

  // Copies what rows carry, where they do: each GPU has that of its own.
  void rows_to_host(CarriedRows& rows);
  void rows_to_device(const CarriedRows& rows);

  bool resident() const;
  void check_kernels();
  void prepare(int64_t examples);
  int measure(const Batch& batch, const StepInfo& info);
  void choose_kernels_again();
  void queue(const Batch& batch, const StepInfo& info);
  uint64_t in_flight() const { return members_[0]->step.in_flight(); }
  DeviceReport take();
  std::string find_non_finite();
  void forget_in_flight();
  LossScale loss_scale() { return members_[0]->step.loss_scale(); }
  void set_loss_scale(const LossScale& scale);

  // The parts of a step, for replicas that add up their gradients. No step may be in flight.
  void cut(const std::vector<Optimizer::Range>& buckets);
  DeviceReport compute(const Batch& batch, const StepInfo& info);
  void gradient_to_host(std::byte* to) { members_[0]->step.gradient_to_host(to); }
  // The same bucket by bucket: between start_compute() and end_compute(), bucket() waits for each in turn, in the host's memory.
  void start_compute(const Batch& batch, const StepInfo& info);
  const std::byte* bucket(size_t bucket);
  DeviceReport end_compute();
  std::byte* gradient() const { return members_[0]->step.gradient(); }
  void divide_gradient(double by);
  // Weights of the loss as each step finds them when it is queued; must outlive this.
  void take_factors(const LossFactors& factors) const {
    for (const auto& member : members_) member->step.take_factors(factors);
  }
  // Sums of the gradients of several batches, kept on each GPU: memory for them, and what add_gradient() of an engine does.
  void keep_sums();
  void add_to_sum(bool first, bool last);
  const int32_t* stopped() const { return members_[0]->step.stopped(); }
  void update(const std::byte* gradient);  // null: the one that lies there
  double gradient_norm() const { return norm_; }
  void commit_states();

  size_t bytes() const;                    // of all GPUs
  std::vector<DeviceTaken> taken() const;  // by GPU
  DeviceMemory memory() const;             // of the first GPU; the others have as much

 private:
  using Part = DeviceStep::Part;
  struct Member {
    Member(Gpu& gpu, Model& of, const std::vector<Storage>* slots, PlanSet& plans, Optimizer& optimizer, const DataSource& source,
           const std::vector<int>& fields, uint64_t seed, Tuning& tuning, const LossScale* scale, size_t data_room, int64_t streams);
    DeviceModel model;
    DeviceStep step;
  };
  size_t size() const { return members_.size(); }
  bool alone() const { return size() == 1; }
  void bind_sums();
  void begin(Part part, const Batch& batch, const StepInfo& info);
  void run(Part part);
  void capture_together(bool branched);
  void queue_whole(const std::vector<std::vector<GroupSum>>& sums, const std::vector<std::unique_ptr<BranchedCapture>>& captures);
  std::vector<DeviceWork> work_with_sums(size_t gpu, const std::vector<std::vector<GroupSum>>& sums) const;
  void queue_sections(Part part);
  void sum_after(Part part, size_t section);
  void fetch(size_t bucket);
  void wait(const std::string& doing);  // for all that was queued
  template <class Act>
  void all_or_none(Act act);

  GpuGroup& gpus_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<Optimizer::Range> buckets_;
  std::vector<std::vector<GroupSum>> bucket_sums_;  // the last with the figures
  std::vector<GroupSum> state_sums_;
  std::vector<void*> events_;
  // The state of a gradient on its way to the host.
  bool fetching_ = false;
  GpuHandle fetched_;
  std::vector<GpuHandle> complete_, arrived_;  // by bucket
  double norm_ = -1;
};

}  // namespace perigee
