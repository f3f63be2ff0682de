// TrainingSetup steps on a GPU. A step (gather or inputs, forward, backward, norms, update, states, figures) is captured once for each batch
// size as one CUDA graph and replayed: nothing is launched beside it. What changes from step to step (examples, learning rates, counters
// of random draws) goes through two buffers in turns, filled by the host and copied by a stream of their own while the step before runs;
// figures come back the same way, so the host waits for a step only when the next one is queued already.
//
// Where things lie is step_buffers.h, what a step consists of step_program.h, how it is launched step_graphs.h; here is when.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/model/device/device_tuning.h"
#include "src/train/device/step_graphs.h"

namespace perigee {

struct DeviceReport {
  double loss_sum = 0;
  int64_t correct = 0;
  double gradient_norm = -1;  // -1 when it was not measured
  bool finite = true;         // false: the step changed nothing, and neither did those behind it
  bool overflowed = false;    // in f16: the step changed nothing but the loss scale
  LossScale scale;            // after the step
  double seed = 0;            // what the gradient began with; 0: it was not scaled
};

class DeviceStep {
 public:
  static constexpr uint64_t kInFlight = StepBuffers::kInFlight;

  // All but `scale` (of precision "fp16", else null) must outlive this. `streams`: rows that carry from step to step, where the model's do.
  // `fields` of the source: the model's inputs, its target, those of
  // further heads. `data_room`: bytes that the data set may take on the device.
  DeviceStep(DeviceModel& model, PlanSet& plans, Optimizer& optimizer, const DataSource& source, std::vector<int> fields, uint64_t seed,
             Tuning& tuning, const LossScale* scale, size_t data_room, int64_t streams);
  ~DeviceStep();

  void check_kernels() { program_.check_kernels(); }
  // Whether the data set lies on the device: batches need no fields then, their ids are enough.
  bool resident() const { return data_ != nullptr; }
  // Takes what steps of so many examples will need, so that what is wrong shows before the first.
  void prepare(int64_t examples);
  // Measures kernels on a batch and chooses by the table; how many choices the table lacked.
  int measure(const Batch& batch, const StepInfo& info, int64_t examples);  // on so many of the batch's
  void choose_kernels_again() { settled_.clear(); }                         // the table changed
  // Queues a step by what Optimizer::begin_step() said; at most kInFlight are in flight.
  void queue(const Batch& batch, const StepInfo& info);
  uint64_t in_flight() const { return queued_ - taken_; }
  DeviceReport take();  // waits for the oldest step in flight
  // After a step that was not finite: where the first NaN is ("layer 'a', op 'b'", empty when it is not found again), then on from there.
  std::string find_non_finite();
  void forget_in_flight();

  void take_factors(const LossFactors& factors) { buffers_.take_factors(factors); }
  LossScale loss_scale();  // waits
  void set_loss_scale(const LossScale& scale);

  // The parts of a step, for replicas that add up their gradients; each waits. No step may be in flight.
  DeviceReport compute(const Batch& batch, const StepInfo& info);  // the gradient stays on the device
  void gradient_to_host(std::byte* to);
  void divide_gradient(double by);  // float32; queued
  // Adds up the gradients of several batches in their order: the first begins the sum, which lies where the gradient was after the last.
  void keep_sum();  // memory for it
  void add_to_sum(bool first, bool last);
  const int32_t* stopped() const { return buffers_.stopped(); }
  // By what Optimizer::begin_step() said; a gradient of the host, or null for the one that lies here. The norm is that of take()'s report.
  void update(const std::byte* gradient);
  double gradient_norm() const { return norm_; }
  void commit_states();  // of the last compute()

  // As one of several GPUs, which take their own rows of each batch and meet between the sections of a step (device_team.h); and alone where
  // the gradient is wanted bucket by bucket.
  using Part = StepPart;
  struct Share {
    int64_t first = 0, examples = 0;
    int64_t of = 0;  // examples of all GPUs together; 0: this one is alone
  };
  void join_team();
  void cut(std::vector<Optimizer::Range> buckets);  // of the gradient, in the order in which backward finishes them
  void begin(Part part, const Batch& batch, const Share& share, const StepInfo& info);  // fills the next slot's buffer, and sends it
  // The sections of the work that was begun, see StepGraphs.
  size_t sections() const { return program_.count_sections(next().work); }
  bool has_graphs(size_t count) const { return graphs_.has_sections(next(), count); }
  void describe();
  bool prefers_branches();
  GpuBranches& branches(bool several);
  const std::vector<DeviceWork>& section(size_t section) const { return graphs_.section(section); }
  void queue_section(size_t section);  // op by op
  void add_graph(GpuHandle graph) { graphs_.add_graph(next(), std::move(graph)); }
  void capture_sections(bool branched);
  void launch(size_t graph) { graphs_.launch_section(next(), graph); }
  void end();                                                // all is queued
  void* done() { return buffers_.slot(taken_).done.get(); }  // of the oldest in flight
  DeviceReport taken();                                      // once that was waited for
  bool queue_commit(bool take_means);  // of the last compute, in two parts, between which states are added up; false: there are none
  std::byte* gradient() const { return buffers_.gradient().data(); }
  std::byte* shares() const { return buffers_.shares().data(); }
  using StateRun = StepBuffers::StateRun;
  DeviceRows* rows() { return rows_.get(); }  // null: they carry nothing
  const std::vector<StateRun>& state_runs() const { return buffers_.state_runs(); }
  std::byte* shared_states() const { return buffers_.shared_states().data(); }
  bool blocking() const { return program_.checked() || queued_ < op_by_op_; }  // the next step runs op by op, each waited for
  Gpu& gpu() const { return gpu_; }

  size_t bytes() const { return gpu_.peak(); }  // on the device, of everything that training takes: context and libraries apart
  DeviceMemory memory() const;                  // what there is now
  size_t bytes_of_others() const;

 private:
  StepSlot& next() { return buffers_.slot(queued_); }
  const StepSlot& next() const { return buffers_.slot(queued_); }
  void make_room(StepSlot& slot, const StepWork& work);
  void fill(StepSlot& slot, const StepWork& work, const Batch& batch, const StepInfo& info, int64_t first);
  void start(const StepWork& work, const Batch& batch, const StepInfo& info);
  void begin_rows(const StepWork& work, const Batch& batch);
  int settle(StepSlot& slot, const StepWork& work, bool measure);
  void settle_once(StepSlot& slot, const StepWork& work);
  const StepWork* last_compute() const;
  void clear_stopped() { gpu_.clear(buffers_.stopped(), sizeof(int32_t)); }

  DeviceModel& model_;
  Gpu& gpu_;
  Tuning& tuning_;
  uint64_t op_by_op_ = 0;  // steps
  int64_t skipped_ = 0;    // steps, as far as the host knows
  StepBuffers buffers_;
  DevicePlans plans_;
  DeviceUpdate update_;
  GpuMemory sum_;  // of gradients; empty unless a step has several batches
  std::unique_ptr<ResidentData> data_;
  std::unique_ptr<DeviceRows> rows_;
  StepProgram program_;
  StepGraphs graphs_;
  std::set<StepWork> settled_;  // whose kernels are known to run
  int64_t generation_ = 0;
  uint64_t queued_ = 0, taken_ = 0;
  double norm_ = -1;
};

}  // namespace perigee
