#include "src/graph/scan_plan.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "kernels/round_up.h"
#include "src/graph/passes/passes.h"
#include "src/tensor/bytes.h"

namespace perigee {
namespace {

constexpr size_t kScanPlanAlignment = 64;

void run_scan(const KernelCall& call) { static_cast<ScanRun*>(const_cast<void*>(call.params))->run(call); }

PlanOptions options_of_body(const PlanOptions& options, const ScanLayout& layout) {
  PlanOptions own{.backend = options.backend, .isa = options.isa, .tuning = options.tuning};
  const auto add = [](std::vector<std::string>& names, const char* letter, int count) {
    for (int i = 0; i < count; ++i) names.push_back(letter + std::to_string(i));
  };
  add(own.external_outputs, "c", layout.carries);
  add(own.external_outputs, "y", layout.results);
  add(own.external_outputs, "s", layout.sums);
  add(own.sums, "s", layout.sums);
  return own;
}

}  // namespace

const Kernel ScanPlan::kernel = {.op = "scan", .name = "loop", .backend = Backend::ref, .run = run_scan, .accumulates = true};

ScanPlan::Room ScanPlan::room(const Type& type) {
  const size_t bytes = byte_size(type);
  const Room room{.offset = scratch_bytes_, .bytes = bytes, .row = type.shape.rank() > 0 ? bytes / static_cast<size_t>(examples_) : bytes};
  scratch_bytes_ += round_up(bytes, kScanPlanAlignment);
  return room;
}

ScanPlan::ScanPlan(const Node& node, int64_t examples, const PlanOptions& options, std::vector<bool> added)
    : layout_(scan_layout(node.attrs, *node.body, node.inputs.size())),
      examples_(std::max<int64_t>(1, examples)),
      added_(std::move(added)),
      body_(Plan::compile(fuse_backward(*node.body), options_of_body(options, layout_))) {
  scratch_bytes_ = round_up(body_->arena_bytes(), kScanPlanAlignment);
  const auto type_of = [&](const char* letter, int i) -> const Type& {
    return node.body->type(body_output(*node.body, letter + std::to_string(i)));
  };
  for (int i = 0; i < layout_.carries; ++i) {
    carries_.push_back(room(type_of("c", i)));
    next_.push_back(room(type_of("c", i)));
  }
  for (int i = 0; i < layout_.steps; ++i) {
    const ValueId leaf = body_leaf(*node.body, "x" + std::to_string(i));
    steps_.push_back(leaf.node < 0 ? Room{} : room(node.body->type(leaf)));
  }
  for (int i = 0; i < layout_.results; ++i) results_.push_back(room(type_of("y", i)));
  for (int i = 0; i < layout_.sums; ++i) sums_.push_back(room(type_of("s", i)));
}

ScanRun::ScanRun(const ScanPlan& plan, std::byte* scratch) : plan_(plan), scratch_(scratch), body_(plan.body_, {.arena = scratch}) {
  const auto inputs = [&](const char* letter, int count, std::vector<int>& places) {
    for (int i = 0; i < count; ++i) places.push_back(plan.body_->input_index(letter + std::to_string(i)));
  };
  inputs("c", plan.layout_.carries, carry_inputs_);
  inputs("x", plan.layout_.steps, step_inputs_);
  inputs("f", plan.layout_.fixed, fixed_inputs_);
  const std::vector<std::string>& parameters = plan.body_->parameters();
  for (int i = 0; i < plan.layout_.weights; ++i) {
    const auto found = std::find(parameters.begin(), parameters.end(), "w" + std::to_string(i));
    weights_.push_back(found == parameters.end() ? -1 : static_cast<int>(found - parameters.begin()));
  }
  for (const ScanPlan::Room& room : plan.carries_) carried_.push_back(at(room));
  for (const ScanPlan::Room& room : plan.next_) next_.push_back(at(room));
}

void ScanRun::gather(const View& sequence, const ScanPlan::Room& room, int64_t t) const {
  const std::byte* from = sequence.as<std::byte>() + static_cast<size_t>(t) * room.row;
  for (size_t n = 0; n < static_cast<size_t>(plan_.examples_); ++n)
    std::memcpy(at(room) + n * room.row, from + n * room.row * static_cast<size_t>(plan_.layout_.length), room.row);
}

void ScanRun::scatter(const ScanPlan::Room& room, const std::byte* from, const View& sequence, int64_t t) const {
  if (sequence.data == nullptr) return;  // nothing reads it
  std::byte* to = sequence.as<std::byte>() + static_cast<size_t>(t) * room.row;
  for (size_t n = 0; n < static_cast<size_t>(plan_.examples_); ++n)
    std::memcpy(to + n * room.row * static_cast<size_t>(plan_.layout_.length), from + n * room.row, room.row);
}

void ScanRun::begin(const KernelCall& call) {
  const ScanLayout& layout = plan_.layout_;
  for (int i = 0; i < layout.carries; ++i)
    std::memcpy(carried_[static_cast<size_t>(i)], call.in[i].data, plan_.carries_[static_cast<size_t>(i)].bytes);
  for (int i = 0; i < layout.steps; ++i)
    if (const int input = step_inputs_[static_cast<size_t>(i)]; input >= 0)
      body_.set_input(input, at(plan_.steps_[static_cast<size_t>(i)]));
  for (int i = 0; i < layout.fixed; ++i)
    if (const int input = fixed_inputs_[static_cast<size_t>(i)]; input >= 0)
      body_.set_input(input, call.in[layout.operand_of_fixed(i)].data);
  for (int i = 0; i < layout.weights; ++i)
    if (const int parameter = weights_[static_cast<size_t>(i)]; parameter >= 0)
      body_.set_parameter(parameter, call.in[layout.operand_of_weight(i)].data);
  for (int i = 0; i < layout.results; ++i) body_.set_output(layout.carries + i, at(plan_.results_[static_cast<size_t>(i)]));
  for (int i = 0; i < layout.sums; ++i) {
    const ScanPlan::Room& room = plan_.sums_[static_cast<size_t>(i)];
    const View& sum = call.out[layout.sum(i)];
    void* const to = sum.data ? sum.data : at(room);
    if (!call.accumulate || !plan_.added_[static_cast<size_t>(layout.sum(i))] || !sum.data) std::memset(to, 0, room.bytes);
    body_.set_output(layout.carries + layout.results + i, to);
  }
  body_.pack();
}

void ScanRun::read_step(const KernelCall& call, int64_t t) {
  const ScanLayout& layout = plan_.layout_;
  for (int i = 0; i < layout.carries; ++i) {
    const auto at = static_cast<size_t>(i);
    scatter(plan_.carries_[at], carried_[at], call.out[layout.before(i)], t);
    if (carry_inputs_[at] >= 0) body_.set_input(carry_inputs_[at], carried_[at]);
    body_.set_output(i, next_[at]);
  }
  for (int i = 0; i < layout.steps; ++i)
    if (step_inputs_[static_cast<size_t>(i)] >= 0) gather(call.in[layout.operand_of_step(i)], plan_.steps_[static_cast<size_t>(i)], t);
}

void ScanRun::write_step(const KernelCall& call, int64_t t) {
  for (int i = 0; i < plan_.layout_.results; ++i) {
    const ScanPlan::Room& room = plan_.results_[static_cast<size_t>(i)];
    scatter(room, at(room), call.out[plan_.layout_.result(i)], t);
  }
  std::swap(carried_, next_);
}

void ScanRun::run(const KernelCall& call) {
  const ScanLayout& layout = plan_.layout_;
  begin(call);
  for (int64_t k = 0; k < layout.length; ++k) {
    const int64_t t = layout.reverse ? layout.length - 1 - k : k;
    read_step(call, t);
    body_.run(call.team, *call.step, true);
    write_step(call, t);
  }
  for (int i = 0; i < layout.carries; ++i)
    if (call.out[i].data) std::memcpy(call.out[i].data, carried_[static_cast<size_t>(i)], plan_.carries_[static_cast<size_t>(i)].bytes);
}

}  // namespace perigee
