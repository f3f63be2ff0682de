// Training steps on a GPU. A step (gather or inputs, forward, backward, norms, update, states, figures) is captured once for each batch
// size as one CUDA graph and replayed: nothing is launched beside it. What changes from step to step (examples, learning rates, counters
// of random draws) goes through two buffers in turns, filled by the host and copied by a stream of their own while the step before runs;
// figures come back the same way, so the host waits for a step only when the next one is queued already.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/data/loader.h"
#include "src/model/device/device_model.h"
#include "src/model/device/device_tuning.h"
#include "src/train/device/device_memory.h"
#include "src/train/device/device_update.h"
#include "src/train/device/resident_data.h"

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
  static constexpr uint64_t kInFlight = 2;
  static constexpr int kBranches = 4;  // of a graph, at most

  // All but `scale` (of precision "fp16", else null) must outlive this. `fields` of the source: the model's inputs, its target, those of
  // further heads. `data_room`: bytes that the data set may take on the device.
  DeviceStep(DeviceModel& model, PlanSet& plans, Optimizer& optimizer, const DataSource& source, std::vector<int> fields, uint64_t seed,
             Tuning& tuning, const LossScale* scale, size_t data_room);
  ~DeviceStep();

  // From now on every kernel of a step is compared with the reference; Error(model) at the first that disagrees.
  void check_kernels() { checked_ = true; }
  // Whether the data set lies on the device: batches need no fields then, their ids are enough.
  bool resident() const { return data_ != nullptr; }
  // Takes what steps of so many examples will need, so that what is wrong shows before the first.
  void prepare(int64_t examples);
  // Measures kernels on a batch and chooses by the table; how many choices the table lacked.
  int measure(const Batch& batch, const StepInfo& info, int64_t examples);  // on so many of the batch's
  void settle_anew() { settled_.clear(); }                                  // the table changed
  // Queues a step by what Optimizer::begin_step() said; at most kInFlight are in flight.
  void queue(const Batch& batch, const StepInfo& info);
  uint64_t in_flight() const { return queued_ - taken_; }
  DeviceReport take();  // waits for the oldest step in flight
  // After a step that was not finite: where the first NaN is ("layer 'a', op 'b'", empty when it is not found again), then on from there.
  std::string find_non_finite();
  void forget_in_flight();

  LossScale loss_scale();  // waits
  void set_loss_scale(const LossScale& scale);

  // The parts of a step, for replicas that add up their gradients; each waits. No step may be in flight.
  DeviceReport compute(const Batch& batch, const StepInfo& info);  // the gradient stays on the device
  void gradient_to_host(std::byte* to);
  void divide_gradient(double by);  // float32; queued
  // By what Optimizer::begin_step() said; a gradient of the host, or null for the one that lies here. The norm is that of take()'s report.
  void update(const std::byte* gradient);
  double gradient_norm() const { return norm_; }
  void commit_states();  // of the last compute()

  // As one of several GPUs, which take their own rows of each batch and meet between the sections of a step (device_team.h); and alone where
  // somebody wants the gradient bucket by bucket. The sections of a step: one for each bucket of the gradient, after which the bucket's sum is
  // complete; of several GPUs also the rest of the step and, where there are states, what comes of their mean.
  enum class Part : uint8_t { whole, compute, update };
  struct Share {
    int64_t first = 0, examples = 0;
    int64_t of = 0;  // examples of all GPUs together; 0: this one is alone
  };
  void join_team();
  void cut(std::vector<Optimizer::Range> buckets);  // of the gradient, in the order in which backward finishes them
  void begin(Part part, const Batch& batch, const Share& share, const StepInfo& info);  // fills the next slot's buffer, and sends it
  size_t sections() const;                                                              // of what was begun, and so are all below
  bool has_graphs(size_t count) const { return next().sections.contains(next().work) && next().sections.at(next().work).size() >= count; }
  void describe();  // before what follows, and run once so that it can be captured
  // Whether the step's pieces are faster side by side than in line: measured, of this GPU alone.
  bool prefers_branches();
  // For who captures: branches of this GPU, and the pieces of a section.
  GpuBranches& branches(bool several);
  const std::vector<DeviceWork>& section(size_t section) const { return described_[section]; }
  void queue_section(size_t section);  // op by op
  void add_graph(GpuHandle graph);
  void capture_sections(bool branched);
  void launch(size_t graph) { gpu_.launch(next().sections.at(next().work)[graph]); }
  void end();                                                     // all is queued
  void* done() { return slots_[taken_ % kInFlight].done.get(); }  // of the oldest in flight
  DeviceReport taken();                                           // once that was waited for
  bool queue_commit(bool take_means);  // of the last compute, in two parts, between which states are added up; false: there are none
  std::byte* gradient() const { return gradient_.data(); }
  std::byte* shares() const { return shares_.data(); }  // three f64: sums of losses, of correct, of who stopped
  struct StateRun {
    size_t begin = 0;  // byte of the state segment
    int64_t elements = 0;
    Dtype dtype = Dtype::f32;
  };
  const std::vector<StateRun>& state_runs() const { return state_runs_; }
  std::byte* shared_states() const { return shared_states_.data(); }
  bool blocking() const { return checked_ || queued_ < op_by_op_; }  // the next step runs op by op, each waited for
  Gpu& gpu() const { return gpu_; }

  size_t bytes() const;         // on the device, of everything that training takes: the peak, context and libraries apart
  DeviceMemory memory() const;  // what there is now
  size_t bytes_of_others() const;

 private:
  struct Work {
    Part part = Part::whole;
    int64_t examples = 0;
    bool gather = false;  // else the fields are in the buffer
    int64_t of = 0;       // Share::of
    auto operator<=>(const Work&) const = default;
  };
  struct Slot {
    GpuHandle pinned, record, copied, done;
    GpuMemory device;
    std::map<Work, GpuHandle> graphs;
    std::map<Work, std::vector<GpuHandle>> sections;
    Work work;
    void drop_graphs() { graphs.clear(), sections.clear(); }
  };

  std::byte* host(const Slot& slot) const { return static_cast<std::byte*>(slot.pinned.get()); }
  int32_t* stopped() const { return reinterpret_cast<int32_t*>(words_.data()); }
  int64_t* counter() const { return reinterpret_cast<int64_t*>(words_.data() + 8); }
  CudaStepRecord* record(const Slot& slot) const { return static_cast<CudaStepRecord*>(slot.record.get()); }
  CudaUpdate* image(const Slot& slot) const { return reinterpret_cast<CudaUpdate*>(slot.device.data() + layout_of({}).update); }
  StepLayout layout_of(const Work& work) const;
  void make_room(Slot& slot, const Work& work);
  void drop_graphs();
  Slot& next() { return slots_[queued_ % kInFlight]; }
  const Slot& next() const { return slots_[queued_ % kInFlight]; }
  void fill(Slot& slot, const Work& work, const Batch& batch, const StepInfo& info, int64_t first = 0);
  void send(Slot& slot, const Work& work, const Batch& batch, const StepInfo& info, int64_t first);
  void start(Slot& slot, const Work& work, const Batch& batch, const StepInfo& info);
  void run(Slot& slot, const Work& work);
  int settle(Slot& slot, const Work& work, bool measure);
  void settle_once(Slot& slot, const Work& work);
  GpuHandle warm_up(Slot& slot, const Work& work);
  template <class Run>
  void run_stopped(Slot& slot, const Work& work, Run run);
  int most_branches() const;
  GpuHandle choose_form(const Work& work, const std::vector<DeviceWork>& pieces);
  void bind_inputs(PlanRun& run, const Slot& slot, const Work& work);
  // device_pieces.cpp: what a graph of the work consists of, in an order that is right for one stream.
  std::vector<DeviceWork> work_of(Slot& slot, const Work& work);
  std::vector<std::byte*> gathered_by(const Plan& plan) const;
  void add_scale(Slot& slot, const Work& work, std::vector<DeviceWork>* pieces);
  void add_compute(Slot& slot, const Work& work, std::vector<DeviceWork>* pieces);
  void add_judge(Slot& slot, const Work& work, const PlanRun& run, std::vector<DeviceWork>* pieces);
  void add_commits(PlanRun& run, const int32_t* skip, std::vector<DeviceWork>* pieces);
  // device_sections.cpp
  std::vector<std::vector<DeviceWork>> sections_of(Slot& slot, const Work& work);
  void add_nothing(Slot& slot, const Work& work, std::vector<DeviceWork>* pieces);
  void add_settle(Slot& slot, const Work& work, std::vector<DeviceWork>* pieces);
  // This GPU's part of the mean over the team, or what came of it.
  void add_states(bool mean, const Work& work, const int32_t* skip, std::vector<DeviceWork>* pieces);
  const Work* last_compute() const;
  CudaScaleCall scaling(Slot& slot, const Work& work) const;
  DeviceReport report_of(const Slot& slot) const;

  DeviceModel& model_;
  Gpu& gpu_;
  Optimizer& optimizer_;
  Tuning& tuning_;
  std::vector<int> fields_;
  std::vector<size_t> row_bytes_;         // by field
  std::vector<std::string> input_names_;  // the plan's, by field
  bool labels_ = false;                   // the target is a class label
  bool checked_ = false;
  std::string unchecked_;             // what has been told of
  uint64_t op_by_op_ = 0;             // steps
  GpuMemory gradient_, words_;        // words: stopped, counter
  GpuMemory shares_, shared_states_;  // of one of several GPUs
  std::vector<StateRun> state_runs_;  // of one dtype each
  std::vector<Optimizer::Range> buckets_;
  std::vector<std::vector<DeviceWork>> described_;
  GpuMemory scale_;      // a CudaLossScale; empty where nothing is scaled
  int64_t skipped_ = 0;  // steps, as far as the host knows
  DevicePlans plans_;
  DeviceUpdate update_;
  std::unique_ptr<ResidentData> data_;
  std::vector<GpuMemory> gathered_;        // by field
  std::unique_ptr<GpuBranches> branches_;  // null: no graph has any
  std::array<Slot, kInFlight> slots_;
  std::set<Work> settled_;  // whose kernels are known to run
  std::set<Work> warm_sections_;
  std::map<Work, bool> branched_;  // of what is warm: whether its graphs have branches
  int64_t generation_ = 0;
  uint64_t queued_ = 0, taken_ = 0;
  double norm_ = -1;
};

}  // namespace perigee
