// How a graph becomes a plan. Internal to plan.cpp, plan_compiler.cpp, plan_kernels.cpp, plan_device.cpp and plan_memory.cpp.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "src/graph/plan.h"

namespace perigee {

// A piece of the arena and the steps between which it holds something.
struct ArenaBuffer {
  size_t bytes = 0;
  int first_step = 0, last_step = 0;
  size_t offset = 0;  // result of place_buffers
};

// Gives each buffer an offset so that buffers that live at the same time do not overlap; returns the arena's size.
size_t place_buffers(std::vector<ArenaBuffer>& buffers);

inline constexpr int kAbsentOperand = -2;  // the `index` of an operand that a step leaves out

// Alias functions move `data`; while nothing is bound it counts bytes from here.
inline std::byte* plan_origin() { return reinterpret_cast<std::byte*>(uintptr_t{1} << 32); }

// A call of the step with addresses that mean nothing, for kernels to look at: `views` keeps what it points to.
KernelCall probing_call(const PlanStep& step, std::vector<View>& views);

// The kernels that may run `call`, best first: host code of the widest instruction set, then ref. Never empty for a call that ref takes.
// For a device: those of the CUDA module alone, in its order; perhaps none.
std::vector<const Kernel*> kernel_candidates(const char* op, const KernelCall& call, const PlanOptions& options);

class PlanCompiler {
 public:
  PlanCompiler(const Graph& graph, const PlanOptions& options);
  std::shared_ptr<const Plan> compile();

 private:
  struct Use {
    int node = -1;
    size_t operand = 0;
  };
  // While compiling, an arena operand's `index` is its buffer and `offset` counts inside it.
  void mark_live();
  void place_leaf(const Node& node);
  void add_node(const Node& node);
  void add_loop(const Node& node);
  bool add_alias(const Node& node);
  bool adds_where_it_must_not(const PlanStep& step) const;
  void add_step(const Node& node, PlanStep step);
  Operand new_operand(const Type& type, bool channels_last);
  Operand output_operand(const Node& node, int output, bool channels_last);
  Operand copy_of(ValueId id, bool channels_last);
  bool wants_channels_last(const Node& node, int output) const;
  bool reuse_input(const Node& node, const PlanStep& step, int output, Operand& out);
  void choose_kernel(const Node& node, PlanStep& step);
  std::vector<const Kernel*> candidates_of(const PlanStep& step) const;
  // For a device (plan_device.cpp).
  bool flattened(const Node& node, int output) const;
  bool takes_any_order(const Node& node, size_t operand) const;
  bool casts_images(const Node& node, int output) const;
  bool fill_once(const Node& node);
  bool read_half(const Node& node);
  bool widen_later(const Node& node);
  void widen();
  void delay_reuse_of_small_buffers();
  void find_joins();
  bool join(const Node& node, PlanStep& step);
  [[noreturn]] void no_kernel(const Node& node, const PlanStep& step) const;
  void touch(const Operand& operand, int step);
  void finish();

  const Operand& at(ValueId id) const { return places_[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)]; }
  Sliced sliced(ValueId id) const { return slices_.values[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)]; }
  // Whether slices of a batch, or steps of a loop, add to what lies there. A device takes the batch whole.
  bool adds_up(ValueId id) const;
  bool keeps(const PlanStep& step) const;
  void put(ValueId id, const Operand& operand);
  int& last_use(ValueId id) { return last_use_[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)]; }
  int last_use(ValueId id) const { return last_use_[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)]; }
  const std::vector<Use>& uses(ValueId id) const { return uses_[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)]; }
  // Whether a node after this one reads what lies in the buffer, but for `except`.
  bool is_read_after(int buffer, int node, int except = -1) const;
  int external_index(ValueId id) const;

  const Graph& graph_;
  PlanOptions options_;
  SliceAnalysis slices_;
  std::shared_ptr<Plan> plan_;
  std::vector<bool> live_;
  std::vector<std::vector<int>> last_use_;           // by value: the last live node that reads it (through aliases too)
  std::vector<std::vector<std::vector<Use>>> uses_;  // by value: the live nodes that read it, ascending
  std::vector<std::vector<Operand>> places_;
  std::vector<std::vector<ValueId>> residents_;  // by buffer: the values that lie there
  std::vector<bool> copied_into_;                // by buffer: it holds a copy that later nodes may read
  std::vector<ArenaBuffer> buffers_;
  std::map<std::pair<ValueId, bool>, Operand> copies_;
  std::map<int, ValueId> joins_, joined_;  // node to what its result is added to; sum to what became it
  std::vector<int> packed_buffers_;
  PlanStep widenings_;  // of gradients in 16 bits that are not widened yet
};

}  // namespace perigee
