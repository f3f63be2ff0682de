// A compiled graph: a flat list of kernel calls over one arena, with every address known before it runs. `Plan` is immutable
// and shared; `PlanRun` is one thread's memory for it. Neither allocates, interprets or locks while it runs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/host_isa.h"
#include "src/device/step_order.h"
#include "src/graph/graph.h"
#include "src/graph/op.h"

namespace perigee {

class PlanChecker;
class ScanPlan;
class ScanRun;
class Tuning;

// How a graph behaves when each thread runs its own slice of the batch.
struct SliceAnalysis {
  std::vector<std::vector<Sliced>> values;  // by node, by output
  bool sliceable = true;                    // false: one slice must hold the whole batch
  bool collective = false;                  // true: slices run in step, one sub-batch each
  bool whole_slice = false;                 // true: sub-batches would only cost time
  std::string reason;                       // why it is not sliceable
};
SliceAnalysis analyze_slices(const Graph& graph);

struct PlanOptions {
  Backend backend = Backend::cpu;  // ref: reference kernels only; cuda: kernels of the CUDA module only
  Isa isa = host_isa();
  // Outputs that live in the caller's memory (contiguous) instead of the arena, by name; those that are partial sums
  // (gradients of parameters) are added to what is there.
  std::vector<std::string> external_outputs;
  std::vector<std::string> sums;  // those of them that are added to what is there whatever they are
  // Those of them that are added to what is there in every run, also the first of a step: their owner sees to it that they begin with zeros.
  std::vector<std::string> kept;
  // For a device that also keeps its parameters in this 16-bit type: plans read casts of parameters there.
  std::optional<Dtype> halves;
  const Tuning* tuning = nullptr;  // measured choices; null: the first kernel that takes a call
};

// Where a value lives. half: a parameter in 16 bits.
enum class Place : uint8_t { arena, input, parameter, half, state, table, output };

struct Operand {
  Place place = Place::arena;
  int index = -1;     // of the input, parameter (half too), state, table or external output
  size_t offset = 0;  // bytes from its base
  View view;          // data is null until bound; absent operands have rank 0 and index -2
};

struct PlanStep {
  int node = -1;  // of the graph; -1: a copy that the plan put in
  const OpDef* op = nullptr;
  const Kernel* kernel = nullptr;
  int algorithm = 0;  // which one a library is to take for the kernel
  std::vector<Operand> in, out;
  std::vector<std::byte> params;
  size_t scratch_offset = 0, scratch_bytes = 0;
  size_t packed_offset = 0, packed_bytes = 0;
  bool pack_each_run = false;  // the packed operand is computed, not a leaf
  bool accumulate = false;
  bool keeps = false;  // it accumulates in every run
  double flops = 0;
  std::string scope;
  std::shared_ptr<const ScanPlan> loop;  // null: the step is no loop
};

class Plan {
 public:
  static std::shared_ptr<const Plan> compile(const Graph& graph, const PlanOptions& options);

  size_t arena_bytes() const { return arena_bytes_; }
  size_t packed_bytes() const { return packed_bytes_; }
  const std::vector<PlanStep>& steps() const { return steps_; }
  // Names, in the order that PlanRun takes pointers.
  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& parameters() const { return parameters_; }
  const std::vector<std::string>& states() const { return states_; }
  const std::vector<std::string>& external_outputs() const { return external_outputs_; }
  // Position of an input by name; -1 when the plan does not read it.
  int input_index(const std::string& name) const;
  // How many steps must have run until an external output is complete.
  size_t steps_until(int external_output) const;
  const std::vector<Tensor>& tables() const { return tables_; }  // constants of the graph
  double flops() const;
  std::string report() const;  // one line a step: op, kernel, shapes

 private:
  friend class PlanCompiler;
  friend class PlanRun;

  struct NamedOperand {
    std::string name;
    Operand operand;
  };
  std::vector<PlanStep> steps_;
  std::vector<std::string> inputs_, parameters_, states_, external_outputs_;
  std::vector<NamedOperand> outputs_;      // those in the arena, and leaves that are outputs
  std::vector<NamedOperand> assignments_;  // state name, its next value
  std::vector<Tensor> tables_;
  size_t arena_bytes_ = 0;
  size_t packed_bytes_ = 0;
};

class PlanRun {
 public:
  struct Memory {
    std::byte* arena = nullptr;         // arena_bytes(), 64-byte aligned; may be shared by plans that run one after another
    std::span<void* const> parameters;  // in the plan's order; contiguous, canonical. Empty: set_parameter gives each before a run
    std::span<void* const> states;
    std::span<void* const> outputs;  // the external ones. Empty: set_output gives each before a run
    // For a plan for a device, whose addresses are all the device's: its copies of the plan's tables, and packed_bytes().
    std::span<void* const> tables = {};
    std::byte* packed = nullptr;
    std::span<void* const> halves = {};  // the parameters in 16 bits, in the same order, where PlanOptions has them
  };
  PlanRun(std::shared_ptr<const Plan> plan, const Memory& memory);
  ~PlanRun();
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  // From now on every host kernel is compared with ref.
  void enable_check();
  std::string check_failure() const;  // the first disagreement; empty: none so far

  const Plan& plan() const { return *plan_; }
  const KernelCall& call(size_t step) const { return calls_[step].call; }
  void set_input(int index, const void* data);  // contiguous, of the type the graph says
  void set_parameter(int index, void* data);    // where Memory had none
  void set_output(int index, void* data);       // where Memory had none
  void pack();                                  // after parameters changed, before run
  // `accumulate` false: external gradients are overwritten instead of added to (the first sub-batch of a step).
  void run(Team* team, const StepInfo& step, bool accumulate = false) { run_steps(0, calls_.size(), team, step, accumulate); }
  // The same for the plan's steps [first, last): all of them, in order, are one run.
  void run_steps(size_t first, size_t last, Team* team, const StepInfo& step, bool accumulate);
  // For a plan for a device: queue the packing of parameters, and one step; `step` is the device's. The queue reports failures.
  void queue_packs(CudaQueue& queue);
  void queue_step(size_t index, CudaQueue& queue, const StepInfo* step);
  // The memory that they read and write.
  StepAccess packs_access() const;
  StepAccess access(size_t index) const;
  // The scope and op of the first step whose output is not finite; empty when all are. Runs the plan; for diagnosis only.
  std::string find_non_finite(const StepInfo& step);
  void commit_states();  // copies what was assigned into the states
  // The same, done by the owner of the memory: copy(to, from, bytes) for each.
  template <class Copy>
  void for_each_commit(Copy copy) const {
    for (size_t i = 0; i < assignments_.size(); ++i)
      if (states_by_assignment_[i])
        copy(states_by_assignment_[i], assignments_[i].data,
             static_cast<size_t>(assignments_[i].elements()) * dtype_bytes(assignments_[i].dtype));
  }
  // Position of an output by name, for output(int); -1 when there is none.
  int output_index(const std::string& name) const;
  const View& output(int index) const { return outputs_[static_cast<size_t>(index)]; }  // valid after run, until the next
  View output(const std::string& name) const;

 private:
  struct Bound {
    void (*run)(const KernelCall&) = nullptr;
    void (*pack)(const KernelCall&) = nullptr;
    bool pack_each_run = false;
    bool accumulates = false, keeps = false;
    int algorithm = 0;
    KernelCall call;
  };
  struct Patch {
    View* view;
    size_t offset;
  };

  using Patches = std::vector<std::vector<Patch>>;

  void bind(View& view, const Operand& operand, const Memory& memory);
  static void set(Patches& patches, int index, const void* data);

  std::shared_ptr<const Plan> plan_;
  Storage packed_;
  std::vector<View> views_;
  std::vector<Bound> calls_;
  Patches input_patches_, parameter_patches_, output_patches_;
  std::vector<View> outputs_, assignments_;
  std::vector<void*> states_by_assignment_;
  std::vector<std::unique_ptr<ScanRun>> loops_;
  std::unique_ptr<PlanChecker> checker_;
};

}  // namespace perigee
