#include "src/eager/compiled.h"

#include <algorithm>
#include <map>

#include "src/core/error.h"
#include "src/eager/batch.h"
#include "src/eager/eager.h"
#include "src/eager/kernels.h"
#include "src/graph/lapack.h"
#include "src/graph/passes/passes.h"
#include "src/graph/passes/simplify.h"

namespace perigee {
namespace {

constexpr int64_t kWorthSharing = 1 << 16;

std::string result_name(size_t index) { return std::string("r").append(std::to_string(index)); }

// Results are memory of their own: what is a window or a leaf, or stands twice, is copied.
Graph with_own_outputs(const Graph& graph) {
  Graph result;
  for (const Tensor& constant : graph.constants()) result.add_constant(constant);
  for (const Node& node : graph.nodes()) result.append(node);
  for (const Leaf& leaf : graph.leaves()) result.add_leaf(leaf);
  std::vector<ValueId> seen;
  for (const NamedValue& output : graph.outputs()) {
    const OpDef& op = *graph.node(output.value).op;
    const bool again = std::find(seen.begin(), seen.end(), output.value) != seen.end();
    const Value value(&result, output.value);
    result.output(output.name, op.alias || op.leaf != LeafOp::none || again ? result.apply("copy", {value}) : value);
    seen.push_back(output.value);
  }
  return result;
}

void check_type(const Array& given, const Type& wanted, size_t index) {
  if (given.type() != wanted)
    throw Error(ErrorKind::model, {.what = "argument " + std::to_string(index + 1) + " is not what the function was recorded with",
                                   .got = given.text(),
                                   .expected = wanted.text()});
}

// Whether no other argument looks at the same memory.
bool is_alone(std::span<const Array> in, std::span<const Array> captured, size_t index) {
  const auto same = [&](const Array& other) { return other.storage == in[index].storage; };
  return std::count_if(in.begin(), in.end(), same) == 1 && std::none_of(captured.begin(), captured.end(), same);
}

std::byte* row(const Array& x, size_t part, size_t parts) {
  const int64_t rows = x.view.dims[0] / static_cast<int64_t>(parts) * static_cast<int64_t>(part);
  return x.view.as<std::byte>() + rows * x.view.strides[0] * static_cast<int64_t>(dtype_bytes(x.view.dtype));
}

}  // namespace

CompiledFunction::CompiledFunction(const Recorder& recorder, std::span<const int> outputs, int threads, std::span<const int> donated)
    : captures_(recorder.captures()), results_(outputs.size()), shares_steps_(threads != 1) {
  Graph graph;  // the recorder's with its outputs
  for (const Tensor& constant : recorder.graph().constants()) graph.add_constant(constant);
  for (const Node& node : recorder.graph().nodes()) graph.append(node);
  for (const Leaf& leaf : recorder.graph().leaves()) {
    graph.add_leaf(leaf);
    if (leaf.name[0] == 'a') arguments_.push_back(graph.type(leaf.value));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    slots_.push_back({.type = recorder.type(outputs[i])});
    graph.output(result_name(i), Value(&graph, recorder.value_at(outputs[i]).id()));
  }
  choosing_ = choosing_inputs(graph);
  compile(simplify(fuse_forward(graph)), threads > 0 ? threads : team_size());
  choose_donors(donated);
}

void CompiledFunction::choose_donors(std::span<const int> donated) {
  donors_.assign(results_, -1);
  for (const int argument : donated) {
    const auto index = static_cast<size_t>(argument);
    if (index >= arguments_.size() || std::find(donors_.begin(), donors_.end(), argument) != donors_.end()) continue;
    for (size_t result = 0; result < results_; ++result)
      if (donors_[result] < 0 && slots_[result].type == arguments_[index] && may_take(result, index)) {
        donors_[result] = argument;
        break;
      }
  }
}

// Whether every step that reads the argument is over when the result is written, or is the very one and goes element by element.
bool CompiledFunction::may_take(size_t result, size_t argument) const {
  if (!rest_stage_.plan || slots_[result].rows || slots_[result].sum) return false;
  const auto is_argument = [&](const Operand& operand) {
    const bool parameter = operand.place == Place::parameter;
    if (!parameter && operand.place != Place::input) return false;
    const Source& source = (parameter ? rest_stage_.parameters : rest_stage_.inputs)[static_cast<size_t>(operand.index)];
    return source.from == From::argument && source.index == argument;
  };
  bool written = false;
  for (const PlanStep& step : rest_stage_.plan->steps()) {
    bool writes = false;
    for (const Operand& out : step.out)
      writes = writes || (out.place == Place::output && rest_stage_.outputs[static_cast<size_t>(out.index)] == result);
    for (const Operand& in : step.in)
      if (is_argument(in) && (written || (writes && !(step.op->elementwise && in.offset == 0 && same_layout(in.view, step.out[0].view)))))
        return false;
    written = written || writes;
  }
  return written;
}

void CompiledFunction::compile(const Graph& graph, int parts) {
  std::optional<BatchCut> cut = cut_batch(graph, parts);
  if (!cut) return add_stage(rest_stage_, with_best_batch(with_own_outputs(fuse_backward(without_batch(graph)))), 1);
  std::map<std::string, size_t> slot_of;  // of the boundaries
  for (const Boundary& boundary : cut->boundaries) {
    size_t slot = slots_.size();
    for (size_t i = 0; i < graph.outputs().size() && slot == slots_.size(); ++i)
      if (graph.outputs()[i].value == boundary.value) slot = static_cast<size_t>(std::stoi(graph.outputs()[i].name.substr(1)));
    if (slot == slots_.size()) {
      slots_.push_back({.type = graph.type(boundary.value)});
      slots_.back().memory = new_array(slots_.back().type);
    }
    slots_[slot].rows = !boundary.sum;
    slots_[slot].sum = boundary.sum;
    for (int part = 1; part < cut->parts && boundary.sum; ++part) slots_[slot].partial.push_back(new_array(slots_[slot].type));
    slot_of[boundary.name] = slot;
  }
  // A boundary that is several results at once: `rest` copies it for all but the first.
  for (const NamedValue& output : graph.outputs())
    for (const Boundary& boundary : cut->boundaries)
      if (output.value == boundary.value && output.name != result_name(slot_of[boundary.name]))
        cut->rest.output(output.name, cut->rest.parameter(boundary.name, graph.type(boundary.value)));
  boundary_slots_ = slot_of;
  add_stage(rows_stage_, with_own_outputs(fuse_backward(cut->rows)), cut->parts);
  if (!cut->rest.outputs().empty()) add_stage(rest_stage_, with_own_outputs(fuse_backward(cut->rest)), 1);
}

void CompiledFunction::add_stage(Stage& stage, const Graph& graph, int parts) {
  PlanOptions options;
  for (const NamedValue& output : graph.outputs()) {
    options.external_outputs.push_back(output.name);
    stage.outputs.push_back(output.name[0] == 'b' ? boundary_slots_.at(output.name)
                                                  : static_cast<size_t>(std::stoi(output.name.substr(1))));
  }
  stage.plan = Plan::compile(graph, options);
  const auto source = [&](const std::string& name, bool rows) {
    if (name[0] == 'b') return Source{From::slot, boundary_slots_.at(name), rows};
    return Source{name[0] == 'a' ? From::argument : From::capture, static_cast<size_t>(std::stoi(name.substr(1))), rows};
  };
  for (const std::string& name : stage.plan->inputs()) stage.inputs.push_back(source(name, parts > 1));
  for (const std::string& name : stage.plan->parameters()) stage.parameters.push_back(source(name, false));
  for (int part = 0; part < parts; ++part) {
    stage.arenas.push_back(std::make_unique<Storage>(stage.plan->arena_bytes()));
    stage.runs.push_back(std::make_unique<PlanRun>(stage.plan, PlanRun::Memory{.arena = stage.arenas.back()->data()}));
  }
}

void CompiledFunction::bind(Stage& stage, size_t part, std::span<const Array> in, std::span<const Array> captured,
                            std::span<const Array> slots) {
  PlanRun& run = *stage.runs[part];
  const size_t parts = stage.runs.size();
  const auto address = [&](const Source& source) {
    const Array& array = source.from == From::argument  ? in[source.index]
                         : source.from == From::capture ? captured[source.index]
                                                        : slots[source.index];
    return source.rows ? row(array, part, parts) : array.view.as<std::byte>();
  };
  for (size_t i = 0; i < stage.inputs.size(); ++i) run.set_input(static_cast<int>(i), address(stage.inputs[i]));
  for (size_t i = 0; i < stage.parameters.size(); ++i) run.set_parameter(static_cast<int>(i), address(stage.parameters[i]));
  for (size_t i = 0; i < stage.outputs.size(); ++i) {
    const Slot& slot = slots_[stage.outputs[i]];
    const Array& whole = slots[stage.outputs[i]];
    std::byte* to = whole.view.as<std::byte>();
    if (parts > 1 && slot.rows) to = row(whole, part, parts);
    else if (parts > 1 && slot.sum && part > 0) to = slot.partial[part - 1].view.as<std::byte>();
    run.set_output(static_cast<int>(i), to);
  }
}

// Each part sums its share of every sum's elements.
void CompiledFunction::add_up(int part, std::span<const Array> slots) {
  const int parts = static_cast<int>(rows_stage_.runs.size());
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (!slots_[s].sum) continue;
    const int64_t n = slots_[s].type.shape.elements(), begin = n * part / parts, end = n * (part + 1) / parts;
    const auto flat = [&](const Array& x) {
      View view = contiguous_view(x.view.as<std::byte>() + begin * static_cast<int64_t>(dtype_bytes(x.view.dtype)), x.view.dtype,
                                  Shape{end - begin});
      return view;
    };
    const View target = flat(slots[s]);
    for (const Array& other : slots_[s].partial) {
      const View operands[] = {target, flat(other)};
      KernelCall call;
      call.in = operands;
      call.n_in = 2;
      call.out = &target;
      call.n_out = 1;
      kernel_for(host_kernels("add"), call, "add").run(call);
    }
  }
}

// Labels and indices that come in as they are; those that the function computes are not looked at.
void CompiledFunction::check_choosing(std::span<const Array> in, std::span<const Array> captured) const {
  for (const ChoosingInput& choice : choosing_) {
    const auto index = static_cast<size_t>(std::stoi(choice.name.substr(1)));
    check_choices(choice.op, choice.name[0] == 'a' ? in[index] : captured[index], choice.low, choice.count, choice.labels);
  }
}

// Step by step: long element-wise ones, as updates are, run on several threads.
void CompiledFunction::run_rest(const StepInfo& step) {
  PlanRun& run = *rest_stage_.runs[0];
  run.pack();
  const std::vector<PlanStep>& steps = rest_stage_.plan->steps();
  for (size_t i = 0; i < steps.size(); ++i) {
    const int64_t elements = run.call(i).out[0].elements();
    if (!shares_steps_ || !steps[i].op->elementwise || steps[i].accumulate || elements < kWorthSharing) {
      run.run_steps(i, i + 1, nullptr, step, false);
      continue;
    }
    KernelCall call = run.call(i);
    call.step = &step;
    run_kernel(*steps[i].kernel, call, split_elementwise(call), static_cast<double>(elements));
  }
}

std::vector<Array> CompiledFunction::run(std::span<const Array> arguments) {
  if (arguments.size() != arguments_.size())
    throw Error(ErrorKind::usage, {.what = "the function was recorded with another number of arguments",
                                   .got = std::to_string(arguments.size()),
                                   .expected = std::to_string(arguments_.size())});
  std::vector<Array> in, captured, slots;
  for (size_t i = 0; i < arguments.size(); ++i) {
    check_type(arguments[i], arguments_[i], i);
    in.push_back(contiguous(arguments[i]));
  }
  for (const Array& capture : captures_) captured.push_back(contiguous(capture));
  check_choosing(in, captured);
  for (size_t s = 0; s < slots_.size(); ++s) {
    const int donor = s < results_ ? donors_[s] : -1;
    const bool taken = donor >= 0 && is_alone(in, captured, static_cast<size_t>(donor));
    slots.push_back(taken ? in[static_cast<size_t>(donor)] : s < results_ ? new_array(slots_[s].type) : slots_[s].memory);
  }
  const StepInfo step{.step = calls_++};
  const int parts = static_cast<int>(rows_stage_.runs.size());
  if (parts > 0) {
    for (int part = 0; part < parts; ++part) bind(rows_stage_, static_cast<size_t>(part), in, captured, slots);
    std::vector<std::exception_ptr> failures(static_cast<size_t>(parts));
    in_parts(parts, [&](int part) {
      PlanRun& run = *rows_stage_.runs[static_cast<size_t>(part)];
      take_linear_algebra_failure();  // drops failures of earlier calls
      run.pack();
      run.run(nullptr, step);
      failures[static_cast<size_t>(part)] = take_linear_algebra_failure();
    });
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
    in_parts(parts, [&](int part) { add_up(part, slots); });
  }
  if (rest_stage_.plan) {
    bind(rest_stage_, 0, in, captured, slots);
    take_linear_algebra_failure();
    run_rest(step);
    if (const std::exception_ptr failure = take_linear_algebra_failure()) std::rethrow_exception(failure);
  }
  slots.resize(results_);
  return slots;
}

std::string CompiledFunction::report() const {
  std::string text;
  if (rows_stage_.plan) text += "in " + std::to_string(parts()) + " parts:\n" + rows_stage_.plan->report() + "then:\n";
  return text + (rest_stage_.plan ? rest_stage_.plan->report() : "");
}

}  // namespace perigee
