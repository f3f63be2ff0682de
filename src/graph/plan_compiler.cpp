#include "src/graph/plan_compiler.h"

#include <algorithm>
#include <cassert>

#include "kernels/round_up.h"
#include "src/core/error.h"
#include "src/graph/scan_plan.h"
#include "src/tensor/bytes.h"

namespace perigee {
namespace {

constexpr size_t kPlanCompilerAlignment = 64;

View shaped_view(const Type& type, bool channels_last) {
  View view = contiguous_view(nullptr, type.dtype, type.shape);
  if (channels_last && type.shape.rank() == 4) {
    const int64_t c = type.shape[1], h = type.shape[2], w = type.shape[3];
    const int64_t strides[4] = {c * h * w, 1, w * c, c};
    std::copy(strides, strides + 4, view.strides);
  }
  return view;
}

}  // namespace

PlanCompiler::PlanCompiler(const Graph& graph, const PlanOptions& options)
    : graph_(graph), options_(options), slices_(analyze_slices(graph)), plan_(std::make_shared<Plan>()) {}

std::shared_ptr<const Plan> PlanCompiler::compile() {
  plan_->external_outputs_ = options_.external_outputs;
  plan_->tables_ = graph_.constants();
  mark_live();
  find_joins();
  places_.resize(graph_.nodes().size());
  for (const Node& node : graph_.nodes()) {
    places_[static_cast<size_t>(node.id)].resize(node.outputs.size());
    if (!live_[static_cast<size_t>(node.id)]) continue;
    is_leaf(node) ? place_leaf(node) : add_node(node);
  }
  finish();
  return plan_;
}

void PlanCompiler::mark_live() {
  live_.assign(graph_.nodes().size(), false);
  for (const Node& node : graph_.nodes()) {
    uses_.emplace_back(node.outputs.size());
    last_use_.emplace_back(node.outputs.size(), -1);
  }
  const int forever = static_cast<int>(graph_.nodes().size());
  for (const NamedValue& output : graph_.outputs()) last_use(output.value) = forever;
  for (const Assignment& assignment : graph_.assignments()) last_use(assignment.value) = forever;
  for (size_t i = graph_.nodes().size(); i-- > 0;) {
    live_[i] = std::ranges::any_of(last_use_[i], [](int last) { return last >= 0; });
    if (!live_[i]) continue;
    const Node& node = graph_.nodes()[i];
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k].node < 0) continue;
      int& last = last_use(node.inputs[k]);
      last = std::max(last, static_cast<int>(i));
      if (k == 0 && node.op->alias) last = std::max(last, last_use_[i][0]);  // a window keeps what it looks at
    }
  }
  for (const Node& node : graph_.nodes())
    for (size_t k = 0; k < node.inputs.size() && live_[static_cast<size_t>(node.id)]; ++k)
      if (const ValueId id = node.inputs[k]; id.node >= 0)
        uses_[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)].push_back({node.id, k});
}

void PlanCompiler::put(ValueId id, const Operand& operand) {
  places_[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)] = operand;
  if (operand.place != Place::arena || operand.index < 0) return;
  residents_.resize(std::max(residents_.size(), static_cast<size_t>(operand.index) + 1));
  residents_[static_cast<size_t>(operand.index)].push_back(id);
}

bool PlanCompiler::is_read_after(int buffer, int node, int except) const {
  if (static_cast<size_t>(buffer) >= residents_.size()) return false;
  return std::ranges::any_of(residents_[static_cast<size_t>(buffer)], [&](ValueId id) { return id.node != except && last_use(id) > node; });
}

void PlanCompiler::place_leaf(const Node& node) {
  Operand operand{.view = shaped_view(node.outputs[0], false)};
  const auto named = [&](Place place, std::vector<std::string>& names) {
    operand.place = place;
    operand.index = static_cast<int>(names.size());
    names.push_back(attr_string(node, "name"));
  };
  switch (node.op->leaf) {
    case LeafOp::input: named(Place::input, plan_->inputs_); break;
    case LeafOp::parameter: named(Place::parameter, plan_->parameters_); break;
    case LeafOp::state: named(Place::state, plan_->states_); break;
    case LeafOp::table:
      operand.place = Place::table;
      operand.index = static_cast<int>(attr_int(node, "index"));
      break;
    case LeafOp::none: assert(false);
  }
  put({node.id, 0}, operand);
}

Operand PlanCompiler::new_operand(const Type& type, bool channels_last) {
  Operand operand{.place = Place::arena, .index = static_cast<int>(buffers_.size()), .view = shaped_view(type, channels_last)};
  const int step = static_cast<int>(plan_->steps_.size());
  buffers_.push_back({round_up(byte_size(type), kPlanCompilerAlignment), step, step});
  return operand;
}

int PlanCompiler::external_index(ValueId id) const {
  for (const NamedValue& output : graph_.outputs())
    if (output.value == id)
      for (size_t i = 0; i < options_.external_outputs.size(); ++i)
        if (options_.external_outputs[i] == output.name) return static_cast<int>(i);
  return -1;
}

bool PlanCompiler::adds_up(ValueId id) const {
  if (options_.backend == Backend::cuda) return false;
  const int external = external_index(id);
  return sliced(id) == Sliced::partial ||
         (external >= 0 &&
          std::ranges::find(options_.sums, options_.external_outputs[static_cast<size_t>(external)]) != options_.sums.end());
}

// A step of several results keeps all of them or none: gradients of tables come alone.
bool PlanCompiler::keeps(const PlanStep& step) const {
  return step.accumulate && step.out.size() == 1 && step.out[0].place == Place::output &&
         std::ranges::find(options_.kept, options_.external_outputs[static_cast<size_t>(step.out[0].index)]) != options_.kept.end();
}

bool PlanCompiler::wants_channels_last(const Node& node, int output) const {
  const Type& type = node.outputs[static_cast<size_t>(output)];
  if (options_.backend == Backend::ref || type.shape.rank() != 4) return false;
  if (node.op->image) return !node.op->gives_weight && !flattened(node, output);
  if (!node.op->elementwise) return false;
  if (casts_images(node, output)) return true;
  for (const ValueId& id : node.inputs) {
    if (id.node < 0 || graph_.type(id).shape != type.shape) continue;
    const View& view = places_[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)].view;
    if (view.channels_last() && !view.contiguous()) return true;
  }
  return false;
}

Operand PlanCompiler::output_operand(const Node& node, int output, bool channels_last) {
  const int external = external_index({node.id, output});
  if (external < 0) return new_operand(node.outputs[static_cast<size_t>(output)], channels_last);
  return {.place = Place::output, .index = external, .view = shaped_view(node.outputs[static_cast<size_t>(output)], false)};
}

void PlanCompiler::touch(const Operand& operand, int step) {
  if (operand.place != Place::arena || operand.index < 0) return;
  ArenaBuffer& buffer = buffers_[static_cast<size_t>(operand.index)];
  buffer.last_step = std::max(buffer.last_step, step);
}

Operand PlanCompiler::copy_of(ValueId id, bool channels_last) {
  const auto key = std::make_pair(id, channels_last);
  if (const auto known = copies_.find(key); known != copies_.end()) return known->second;
  PlanStep step{.op = &op_named("copy"), .in = {at(id)}, .out = {new_operand(graph_.type(id), channels_last)}};
  const Operand result = step.out[0];
  step.scope = graph_.node(id).scope;
  add_step({.op = step.op, .inputs = {id}, .outputs = {graph_.type(id)}, .scope = step.scope}, std::move(step));
  copies_.emplace(key, result);
  copied_into_.resize(std::max(copied_into_.size(), static_cast<size_t>(result.index) + 1));
  copied_into_[static_cast<size_t>(result.index)] = true;
  return result;
}

bool PlanCompiler::add_alias(const Node& node) {
  if (!node.op->alias) return false;
  const OperandTypes types(graph_, node);
  Operand source = at(node.inputs[0]);
  for (int attempt = 0; attempt < 2; ++attempt) {
    View in = source.view, out;
    in.data = plan_origin() + source.offset;
    if (node.op->alias(types.call(), in, &out)) {
      Operand operand = source;
      operand.offset = static_cast<size_t>(static_cast<std::byte*>(out.data) - plan_origin());
      operand.view = out;
      operand.view.data = nullptr;
      put({node.id, 0}, operand);
      const int external = external_index({node.id, 0});
      if (external >= 0) {  // an external output is written, not looked at
        PlanStep step{.op = &op_named("copy"), .in = {operand}};
        step.out = {{.place = Place::output, .index = external, .view = shaped_view(node.outputs[0], false)}};
        step.accumulate = adds_up({node.id, 0});
        step.keeps = keeps(step);
        add_step({.op = step.op, .inputs = {{node.id, 0}}, .outputs = {node.outputs[0]}, .scope = node.scope}, std::move(step));
      }
      return true;
    }
    source = copy_of(node.inputs[0], false);
  }
  return false;
}

bool PlanCompiler::reuse_input(const Node& node, const PlanStep& step, int output, Operand& out) {
  if (out.place != Place::arena) return false;
  const InPlace pair = options_.backend == Backend::cuda ? InPlace() : node.op->in_place;
  for (size_t i = 0; i < step.in.size(); ++i) {
    if (node.op->elementwise ? output != 0 : pair.operand != static_cast<int>(i) || pair.result != output) continue;
    const Operand& in = step.in[i];
    if (in.place != Place::arena || in.index < 0 || in.offset != 0 || node.inputs[i].node < 0) continue;
    if (in.view.dtype != out.view.dtype || !same_layout(in.view, out.view)) continue;
    if (last_use(node.inputs[i]) > node.id) continue;
    if (buffers_[static_cast<size_t>(in.index)].last_step > static_cast<int>(plan_->steps_.size())) continue;
    bool only = true;  // other operands must not look at the same memory in another order
    for (size_t k = 0; k < step.in.size(); ++k)
      if (step.in[k].place == Place::arena && step.in[k].index == in.index &&
          !(step.in[k].offset == 0 && same_layout(step.in[k].view, out.view)))
        only = false;
    const auto buffer = static_cast<size_t>(in.index);
    if (buffer < copied_into_.size() && copied_into_[buffer]) only = false;
    if (is_read_after(in.index, node.id)) only = false;  // through another window
    if (!only) continue;
    out.index = in.index;
    return true;
  }
  return false;
}

// Results that nothing reads are absent. Kernels are not chosen here: the body is a plan of its own.
void PlanCompiler::add_loop(const Node& node) {
  PlanStep step{.node = node.id, .op = node.op, .kernel = &ScanPlan::kernel, .scope = node.scope};
  for (const ValueId& id : node.inputs) step.in.push_back(at(id).view.contiguous() ? at(id) : copy_of(id, false));
  std::vector<bool> added;
  for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o) {
    const ValueId id{node.id, o};
    const auto leaves = [&](const auto& named) { return named.value == id; };
    const bool read =
        !uses(id).empty() || std::ranges::any_of(graph_.outputs(), leaves) || std::ranges::any_of(graph_.assignments(), leaves);
    step.out.push_back(read ? output_operand(node, o, false) : Operand{.index = kAbsentOperand});
    put(id, step.out.back());
    added.push_back(step.out.back().place == Place::output && adds_up(id));
    step.accumulate |= added.back();
  }
  const OperandTypes types(graph_, node);
  step.loop = std::make_shared<const ScanPlan>(node, types.call().inputs[0].shape[0], options_, std::move(added));
  step.flops = node.op->flops(types.call());
  const int index = static_cast<int>(plan_->steps_.size());
  step.scratch_bytes = step.loop->scratch_bytes();
  step.scratch_offset = buffers_.size();  // its buffer, until finish()
  if (step.scratch_bytes) buffers_.push_back({step.scratch_bytes, index, index});
  for (const Operand& in : step.in) touch(in, index);
  for (const Operand& out : step.out) touch(out, index);
  plan_->steps_.push_back(std::move(step));
}

void PlanCompiler::add_node(const Node& node) {
  if (node.op->loop) return add_loop(node);
  if (add_alias(node) || fill_once(node) || read_half(node) || widen_later(node)) return;
  if (const auto sum = joined_.find(node.id); sum != joined_.end()) {
    put({node.id, 0}, at(sum->second));
    return;
  }
  PlanStep step{.node = node.id, .op = node.op};
  for (const ValueId& id : node.inputs) {
    if (id.node < 0) {
      step.in.push_back({.index = kAbsentOperand});
      continue;
    }
    const bool gradient = takes_any_order(node, step.in.size());
    const bool activations = !gradient && node.op->image && options_.backend != Backend::ref && graph_.type(id).shape.rank() == 4 &&
                             sliced(id) != Sliced::whole && !at(id).view.channels_last();
    step.in.push_back(activations ? copy_of(id, true) : at(id));
  }
  if (node.op->params) {
    const OperandTypes types(graph_, node);
    step.params.resize(kMaxParamsBytes);
    step.params.resize(node.op->params(types.call(), step.params.data()));
  }
  const OperandTypes types(graph_, node);
  double elements = 0;
  const bool joins = join(node, step);
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    elements += static_cast<double>(node.outputs[o].shape.elements());
    if (joins) break;
    Operand out = output_operand(node, static_cast<int>(o), wants_channels_last(node, static_cast<int>(o)));
    const int fresh = out.index;
    if (reuse_input(node, step, static_cast<int>(o), out)) {
      assert(fresh == static_cast<int>(buffers_.size()) - 1);
      (void)fresh;
      buffers_.pop_back();
    }
    step.out.push_back(out);
    put({node.id, static_cast<int>(o)}, out);
    if (out.place == Place::output && adds_up({node.id, static_cast<int>(o)})) step.accumulate = true;
  }
  step.keeps = keeps(step);
  step.flops = node.op->flops ? node.op->flops(types.call()) : elements;
  step.scope = node.scope;
  add_step(node, std::move(step));
}

// A kernel adds to all its results or to none. One in the arena that somebody reads is of this sub-batch alone: there the last one's would be
// under it.
bool PlanCompiler::adds_where_it_must_not(const PlanStep& step) const {
  const auto leaves = [](const Operand& out) { return out.place == Place::output; };
  if (std::ranges::none_of(step.out, leaves)) return false;  // it adds to the value that it is joined with
  for (size_t o = 0; o < step.out.size(); ++o) {
    if (step.out[o].place == Place::output) continue;
    const ValueId id{step.node, static_cast<int>(o)};
    for (const Node& reader : graph_.nodes())
      if (std::find(reader.inputs.begin(), reader.inputs.end(), id) != reader.inputs.end()) return true;
  }
  return false;
}

void PlanCompiler::add_step(const Node& node, PlanStep step) {
  choose_kernel(node, step);
  if (step.accumulate && (!step.kernel->accumulates || adds_where_it_must_not(step))) {
    // Compute beside, then add.
    std::vector<std::pair<Operand, Operand>> sums;
    for (size_t o = 0; o < step.out.size(); ++o)
      if (step.out[o].place == Place::output) {
        const Operand target = step.out[o];
        step.out[o] = new_operand(node.outputs[o], false);
        sums.emplace_back(step.out[o], target);
      }
    const bool keeps = step.keeps;
    step.accumulate = step.keeps = false;
    const std::string scope = step.scope;
    add_step(node, std::move(step));
    for (const auto& [from, to] : sums) {
      PlanStep add{.op = &op_named("copy"), .in = {from}, .out = {to}, .accumulate = true, .keeps = keeps, .scope = scope};
      const Type type{from.view.dtype, Shape(std::vector<int64_t>(from.view.dims, from.view.dims + from.view.rank))};
      add_step({.op = add.op, .inputs = {ValueId{}}, .outputs = {type}, .scope = scope}, std::move(add));
    }
    return;
  }
  std::vector<View> views;
  const KernelCall call = probing_call(step, views);
  const int index = static_cast<int>(plan_->steps_.size());
  if (step.kernel->scratch_bytes) {
    step.scratch_bytes = round_up(step.kernel->scratch_bytes(call), kPlanCompilerAlignment);
    step.scratch_offset = buffers_.size();  // its buffer, until finish()
    if (step.scratch_bytes) buffers_.push_back({step.scratch_bytes, index, index});
  }
  if (step.kernel->packed_bytes) {
    step.packed_bytes = round_up(step.kernel->packed_bytes(call), kPlanCompilerAlignment);
    step.packed_offset = plan_->packed_bytes_;
    plan_->packed_bytes_ += step.packed_bytes;
    for (const Operand& in : step.in)
      if (in.index != kAbsentOperand && in.place == Place::arena) {
        const bool batch = [&] {
          for (size_t i = 0; i < node.inputs.size(); ++i)
            if (&step.in[i] == &in) return node.inputs[i].node >= 0 && sliced(node.inputs[i]) == Sliced::batch;
          return false;
        }();
        if (!batch) step.pack_each_run = true;
      }
  }
  for (const Operand& in : step.in) touch(in, index);
  for (const Operand& out : step.out) touch(out, index);
  plan_->steps_.push_back(std::move(step));
}

void PlanCompiler::finish() {
  if (!widenings_.out.empty()) widen();
  const int end = static_cast<int>(plan_->steps_.size());
  const auto keep = [&](ValueId id) {
    touch(at(id), end);
    return at(id);
  };
  for (const NamedValue& output : graph_.outputs()) {
    const int external = external_index(output.value);
    if (external >= 0 && at(output.value).place != Place::output && !graph_.node(output.value).op->alias) {
      // A leaf, or a value that is several outputs at once: copy it out.
      PlanStep step{.op = &op_named("copy"), .in = {at(output.value)}};
      step.out = {{.place = Place::output, .index = external, .view = shaped_view(graph_.type(output.value), false)}};
      add_step({.op = step.op, .inputs = {output.value}, .outputs = {graph_.type(output.value)}}, std::move(step));
    }
    plan_->outputs_.push_back({output.name, keep(output.value)});
  }
  for (const Assignment& assignment : graph_.assignments()) plan_->assignments_.push_back({assignment.state, keep(assignment.value)});
  if (options_.backend == Backend::cuda) delay_reuse_of_small_buffers();
  plan_->arena_bytes_ = place_buffers(buffers_);
  const auto resolve = [&](Operand& operand) {
    if (operand.place == Place::arena && operand.index >= 0) operand.offset += buffers_[static_cast<size_t>(operand.index)].offset;
  };
  for (PlanStep& step : plan_->steps_) {
    for (Operand& operand : step.in) resolve(operand);
    for (Operand& operand : step.out) resolve(operand);
    if (step.scratch_bytes) step.scratch_offset = buffers_[step.scratch_offset].offset;
  }
  for (auto* named : {&plan_->outputs_, &plan_->assignments_})
    for (auto& entry : *named) resolve(entry.operand);
}

std::shared_ptr<const Plan> Plan::compile(const Graph& graph, const PlanOptions& options) { return PlanCompiler(graph, options).compile(); }

}  // namespace perigee
