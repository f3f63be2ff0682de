// Work without a pass of its own on a device. An op that fills with one number is a table, written before the first step; a cast of a
// parameter is a copy that the update writes. Where gradients meet (a residual's two ways), the later convolution's gradient is added to
// the earlier one's memory by the kernel that computes it. Where only our own kernels take an op, operands lie as their other users want
// them; a cast writes images as their kernels read them.
#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <utility>

#include "kernels/dtype_kinds.h"
#include "src/graph/plan_compiler.h"

namespace perigee {

bool PlanCompiler::takes_any_order(const Node& node, size_t operand) const {
  return options_.backend == Backend::cuda && (node.op->left_in_place >> operand & 1) != 0;
}

// Whether a kernel that can write any order computes the result, and all users read the block's order: it precedes the first dense layer.
bool PlanCompiler::flattened(const Node& node, int output) const {
  if (options_.backend != Backend::cuda || !node.op->any_order) return false;
  bool flat = false;
  for (const Use& use : uses({node.id, output})) {
    const Node& user = graph_.nodes()[static_cast<size_t>(use.node)];
    if (user.op->any_order) continue;
    if (!user.op->reshapes) return false;
    flat = true;
  }
  return flat;
}

// Whether only images' kernels read the cast's result; the cast then writes it in their order.
bool PlanCompiler::casts_images(const Node& node, int output) const {
  if (options_.backend != Backend::cuda || !node.op->converts || sliced({node.id, output}) == Sliced::whole) return false;
  bool read = false;
  for (const Use& use : uses({node.id, output})) {
    const Node& user = graph_.nodes()[static_cast<size_t>(use.node)];
    if (!user.op->image || takes_any_order(user, use.operand)) return false;
    read = true;
  }
  return read;
}

// A launch in each step is dearer than the memory, unless that is large.
bool PlanCompiler::fill_once(const Node& node) {
  constexpr size_t kLargest = size_t{1} << 20;
  if (options_.backend != Backend::cuda || !node.op->constant) return false;
  const Type& type = node.outputs[0];
  if (external_index({node.id, 0}) >= 0 || static_cast<size_t>(type.shape.elements()) * dtype_bytes(type.dtype) > kLargest) return false;
  const Tensor table(type.dtype, type.shape);
  std::vector<std::byte> params(kMaxParamsBytes);
  const OperandTypes types(graph_, node);
  node.op->params(types.call(), params.data());
  const KernelCall call{.out = &table.view(), .n_out = 1, .params = params.data()};
  kernel_candidates(node.op->name, call, {.backend = Backend::ref}).front()->run(call);
  Operand operand{.place = Place::table, .index = static_cast<int>(plan_->tables_.size()), .view = table.view()};
  operand.view.data = nullptr;
  put({node.id, 0}, operand);
  plan_->tables_.push_back(table);
  return true;
}

bool PlanCompiler::read_half(const Node& node) {
  if (!options_.halves || !node.op->converts || node.outputs[0].dtype != *options_.halves || external_index({node.id, 0}) >= 0)
    return false;
  Operand operand = at(node.inputs[0]);
  if (operand.place != Place::parameter || operand.view.dtype != Dtype::f32) return false;
  operand.place = Place::half;
  operand.offset /= 2;
  operand.view.dtype = *options_.halves;
  put({node.id, 0}, operand);
  return true;
}

// A gradient in 16 bits that goes to the caller: many of them are widened by one launch, but not so many that sums over several GPUs, which
// wait for whole buckets, could no longer begin while the rest is computed.
bool PlanCompiler::widen_later(const Node& node) {
  constexpr size_t kAtOnce = size_t{8} << 20;
  if (options_.backend != Backend::cuda || !node.op->converts || external_index({node.id, 0}) < 0) return false;
  const Operand in = at(node.inputs[0]);
  if (in.place != Place::arena || !is_half(in.view.dtype) || !in.view.contiguous() || node.outputs[0].dtype != Dtype::f32) return false;
  if (!uses({node.id, 0}).empty()) return false;  // another node needs it now
  const Operand out = output_operand(node, 0, false);
  put({node.id, 0}, out);
  buffers_[static_cast<size_t>(in.index)].last_step = INT_MAX;  // until widen()
  widenings_.in.push_back(in);
  widenings_.out.push_back(out);
  widenings_.flops += static_cast<double>(out.view.elements());
  if (widenings_.flops * sizeof(float) >= kAtOnce) widen();
  return true;
}

void PlanCompiler::widen() {
  PlanStep step = std::exchange(widenings_, {});
  step.op = &op_named("cast");
  step.scope = "gradients";
  for (const Operand& in : step.in) buffers_[static_cast<size_t>(in.index)].last_step = static_cast<int>(plan_->steps_.size());
  Node node{.op = step.op, .scope = step.scope};
  for (const Operand& out : step.out)
    node.outputs.push_back({out.view.dtype, Shape(std::vector<int64_t>(out.view.dims, out.view.dims + out.view.rank))});
  add_step(node, std::move(step));
}

// Steps that nothing else orders run beside each other, unless the later one writes where the earlier one still reads or writes. So what is
// small is not used again by the next few steps: at most a few times kSmall more, and LeNet's longest chain of steps is 7 instead of 11.
void PlanCompiler::delay_reuse_of_small_buffers() {
  constexpr size_t kSmall = size_t{4} << 20;
  constexpr int kSteps = 3;
  for (ArenaBuffer& buffer : buffers_)
    if (buffer.bytes <= kSmall) buffer.last_step += kSteps;
}

void PlanCompiler::find_joins() {
  if (options_.backend != Backend::cuda) return;
  std::map<ValueId, std::vector<int>> users;  // nodes, ascending
  for (const Node& node : graph_.nodes())
    for (const ValueId& id : node.inputs)
      if (live_[static_cast<size_t>(node.id)] && id.node >= 0) users[id].push_back(node.id);
  std::set<ValueId> kept;
  for (const NamedValue& output : graph_.outputs()) kept.insert(output.value);
  for (const Assignment& assignment : graph_.assignments()) kept.insert(assignment.value);
  for (const Node& add : graph_.nodes()) {
    if (!live_[static_cast<size_t>(add.id)] || !adds(add) || external_index({add.id, 0}) >= 0) continue;
    for (const int k : {0, 1}) {
      const ValueId product = add.inputs[static_cast<size_t>(k)], other = add.inputs[static_cast<size_t>(1 - k)];
      if (product.node < 0 || other.node < 0 || other.node >= product.node) continue;
      if (!graph_.node(product).op->joins_gradient || graph_.type(other) != add.outputs[0] || kept.contains(product) ||
          kept.contains(other))
        continue;
      const std::vector<int>& of_other = users[other];
      if (users[product].size() != 1 || of_other.back() != add.id) continue;
      if (of_other.size() > 1 && of_other[of_other.size() - 2] >= product.node) continue;
      joins_[product.node] = other;
      joined_[add.id] = other;
    }
  }
}

// Whether the node's result can be added to the value at its join's operand, which has no other user.
bool PlanCompiler::join(const Node& node, PlanStep& step) {
  const auto found = joins_.find(node.id);
  if (found == joins_.end()) return false;
  const Operand target = at(found->second);
  const auto drop = [&] {
    std::erase_if(joined_, [&](const auto& add) { return add.second == found->second; });
    return false;
  };
  if (target.place != Place::arena || target.index < 0 || target.offset != 0) return drop();
  if (!target.view.channels_last() && !target.view.contiguous()) return drop();
  if (is_read_after(target.index, node.id, found->second.node)) return drop();
  step.out = {target};
  step.accumulate = true;
  for (const Kernel* kernel : candidates_of(step))
    if (!kernel->accumulates) {
      step.out.clear();
      step.accumulate = false;
      return drop();
    }
  put({node.id, 0}, target);
  return true;
}

}  // namespace perigee
