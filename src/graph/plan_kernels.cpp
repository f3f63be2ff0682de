// Which kernels may run a step of a plan, and which of them does.
#include <algorithm>
#include <cstring>

#include "kernels/registry.h"
#include "src/core/error.h"
#include "src/device/cuda_module.h"
#include "src/graph/plan_compiler.h"
#include "src/graph/tuning.h"

namespace perigee {
namespace {

std::span<const KernelList> lists_of_device() {
  std::string why;
  const CudaModule* const module = cuda_module(&why);
  return module ? module->kernels() : std::span<const KernelList>();
}

// Calls use(kernel, why it declines or null) for each of the device's kernels of the op.
template <class Use>
void for_each_of_device(const char* op, const KernelCall& call, Use use) {
  for (const KernelList& list : lists_of_device())
    for (size_t i = 0; i < list.count; ++i)
      if (std::strcmp(list.first[i].op, op) == 0) use(list.first[i], list.first[i].decline ? list.first[i].decline(call) : nullptr);
}

}  // namespace

KernelCall probing_call(const PlanStep& step, std::vector<View>& views) {
  views.clear();
  for (const auto* operands : {&step.in, &step.out})
    for (const Operand& operand : *operands) {
      views.push_back(operand.view);
      views.back().data = operand.index == kAbsentOperand ? nullptr : plan_origin();
    }
  KernelCall call;
  call.in = views.data();
  call.n_in = static_cast<int>(step.in.size());
  call.out = views.data() + step.in.size();
  call.n_out = static_cast<int>(step.out.size());
  call.params = step.params.data();
  call.accumulate = step.accumulate;
  return call;
}

std::vector<const Kernel*> kernel_candidates(const char* op, const KernelCall& call, const PlanOptions& options) {
  std::vector<const Kernel*> host, reference;
  if (options.backend == Backend::cuda) {
    for_each_of_device(op, call, [&](const Kernel& kernel, const char* why) {
      if (why == nullptr) host.push_back(&kernel);
    });
    return host;
  }
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (std::strcmp(kernel.op, op) != 0) continue;
      if (kernel.backend == Backend::ref) {
        if (!kernel.decline || !kernel.decline(call)) reference.push_back(&kernel);
      } else if (kernel.backend == Backend::cpu && options.backend == Backend::cpu && kernel.isa <= options.isa) {
        if (!kernel.decline || !kernel.decline(call)) host.push_back(&kernel);
      }
    }
  std::stable_sort(host.begin(), host.end(), [](const Kernel* a, const Kernel* b) { return a->isa > b->isa; });
  // A narrower build of a kernel that is there in a wider one is never better.
  std::vector<const Kernel*> best;
  for (const Kernel* kernel : host) {
    const bool known = std::any_of(best.begin(), best.end(), [&](const Kernel* b) { return std::strcmp(b->name, kernel->name) == 0; });
    if (!known) best.push_back(kernel);
  }
  best.insert(best.end(), reference.begin(), reference.end());
  return best;
}

std::vector<const Kernel*> PlanCompiler::candidates_of(const PlanStep& step) const {
  std::vector<View> views;
  return kernel_candidates(step.op->name, probing_call(step, views), options_);
}

void PlanCompiler::choose_kernel(const Node& node, PlanStep& step) {
  std::vector<View> views;
  auto candidates = kernel_candidates(step.op->name, probing_call(step, views), options_);
  if (!candidates.empty()) step.kernel = candidates.front();
  if (options_.tuning && (candidates.size() > 1 || options_.backend == Backend::cuda))
    for (const bool exact : {false, true}) {
      const KernelChoice chosen = kernel_choice(options_.tuning->choice(options_.tuning->key_of(step, exact)));
      for (const Kernel* kernel : candidates)
        if (chosen.kernel == kernel->name && kernel->backend == options_.backend) step.kernel = kernel, step.algorithm = chosen.algorithm;
    }
  const bool host_wanted = options_.backend == Backend::cpu && (!step.kernel || step.kernel->backend == Backend::ref);
  const bool strided =
      std::any_of(step.in.begin(), step.in.end(), [](const Operand& o) { return o.index != kAbsentOperand && !o.view.contiguous(); });
  if (host_wanted && strided && step.node >= 0) {
    // Perhaps a host kernel takes the call when its operands lie in canonical order.
    PlanStep contiguous = step;
    for (Operand& operand : contiguous.in)
      if (operand.index != kAbsentOperand)
        operand.view = contiguous_view(nullptr, operand.view.dtype,
                                       Shape(std::vector<int64_t>(operand.view.dims, operand.view.dims + operand.view.rank)));
    candidates = kernel_candidates(step.op->name, probing_call(contiguous, views), options_);
    if (!candidates.empty() && candidates.front()->backend == Backend::cpu) {
      for (size_t i = 0; i < step.in.size(); ++i)
        if (step.in[i].index != kAbsentOperand && !step.in[i].view.contiguous()) step.in[i] = copy_of(node.inputs[i], false);
      step.kernel = candidates.front();
    }
  }
  if (!step.kernel) no_kernel(node, step);
}

void PlanCompiler::no_kernel(const Node& node, const PlanStep& step) const {
  std::string types, reasons;
  for (const ValueId& id : node.inputs)
    types += (types.empty() ? "" : ", ") + (id.node < 0 ? std::string("nothing") : graph_.type(id).text());
  const bool device = options_.backend == Backend::cuda;
  std::vector<View> views;
  const auto add = [&](const Kernel& kernel, const char* why) {
    reasons += (reasons.empty() ? "" : "; ") + std::string(kernel.name) + ": " + (why ? why : "");
  };
  const KernelCall call = probing_call(step, views);
  if (device) for_each_of_device(step.op->name, call, add);
  for (const KernelList& list : kernel_lists())
    for (const Kernel& kernel : std::span(list.first, device ? 0 : list.count))
      if (kernel.backend == Backend::ref && kernel.decline && std::strcmp(kernel.op, step.op->name) == 0) add(kernel, kernel.decline(call));
  throw Error(ErrorKind::model, {.where = step.scope,
                                 .what = "no " + std::string(device ? "CUDA " : "") + "kernel computes op '" + step.op->name + "'",
                                 .got = types + " -> " + node.outputs.at(0).text(),
                                 .expected = reasons,
                                 .hint = device ? "train with device = \"cpu\"" : ""});
}

}  // namespace perigee
