#include "src/graph/plan_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "kernels/ref/strided.h"
#include "kernels/registry.h"
#include "src/graph/plan_compiler.h"

namespace perigee {
namespace {

// A fraction of the largest result; 0: integers, of which an arg-max may fall either way between near equals.
double tolerance_of(Dtype dtype, double of_f32) {
  switch (dtype) {
    case Dtype::f32: return of_f32;
    case Dtype::f64: return 1e-9;
    case Dtype::bf16: return 1.0 / 64;
    case Dtype::f16: return std::max(of_f32, 1.0 / 512);
    default: return 0;
  }
}

View contiguous_like(const View& view, void* data) {
  return contiguous_view(data, view.dtype, Shape(std::vector<int64_t>(view.dims, view.dims + view.rank)));
}

double plan_check_at(const View& view, int64_t index) {
  int64_t offset = 0;
  for (int i = view.rank - 1; i >= 0; --i) {
    offset += index % view.dims[i] * view.strides[i];
    index /= view.dims[i];
  }
  return load_as<double>(view, offset);
}

struct Difference {
  double largest = 0, scale = 0;
  bool agrees(double tolerance) const { return largest <= tolerance * std::max(scale, 1e-6); }
};

Difference difference(const View& got, const View& expected) {
  Difference result;
  for (int64_t i = 0; i < got.elements(); ++i) {
    const double a = plan_check_at(got, i), b = plan_check_at(expected, i);
    result.scale = std::max(result.scale, std::abs(b));
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    result.largest = std::max(result.largest, same ? 0 : std::isfinite(a - b) ? std::abs(a - b) : HUGE_VAL);
  }
  return result;
}

}  // namespace

PlanChecker::PlanChecker(const Plan& plan, double tolerance) : plan_(plan), tolerance_(tolerance), shadows_(plan.steps().size()) {
  for (size_t i = 0; i < shadows_.size(); ++i) {
    const PlanStep& step = plan.steps()[i];
    if (step.kernel->backend == Backend::ref) continue;
    std::vector<View> views;
    for (const auto* operands : {&step.in, &step.out})
      for (const Operand& operand : *operands) {
        views.push_back(operand.view);
        // Kernels are chosen by what operands look like; any address says that one is there.
        views.back().data = operand.index == -2 ? nullptr : &views;
      }
    KernelCall probe;
    probe.in = views.data();
    probe.n_in = static_cast<int>(step.in.size());
    probe.out = views.data() + step.in.size();
    probe.n_out = static_cast<int>(step.out.size());
    probe.params = step.params.data();
    const auto candidates = kernel_candidates(step.op->name, probe, {.backend = Backend::ref});
    if (candidates.empty() || candidates.front()->pack) {
      note_unchecked(step, probe);
      continue;
    }
    Shadow& shadow = shadows_[i];
    shadow.reference = candidates.front();
    if (shadow.reference->scratch_bytes) shadow.scratch = Storage(shadow.reference->scratch_bytes(probe));
    for (const Operand& out : step.out) {
      shadow.outputs.emplace_back(static_cast<size_t>(out.view.elements()) * dtype_bytes(out.view.dtype));
      shadow.views.push_back(contiguous_like(out.view, shadow.outputs.back().data()));
    }
  }
}

void PlanChecker::note_unchecked(const PlanStep& step, const KernelCall& call) {
  const auto add = [&](std::initializer_list<const char*> parts) {
    for (const char* part : parts) unchecked_ += part;
  };
  add({unchecked_.empty() ? "" : "; ", step.scope.c_str(), step.scope.empty() ? "" : ", ", "op '", step.op->name, "'"});
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (kernel.backend != Backend::ref || !kernel.decline || std::strcmp(kernel.op, step.op->name) != 0) continue;
      if (const char* const why = kernel.decline(call)) add({" (", why, ")"});
    }
}

void PlanChecker::before(size_t step, const KernelCall& call) {
  Shadow& shadow = shadows_[step];
  if (!shadow.reference) return;
  if (call.accumulate)
    for (int o = 0; o < call.n_out; ++o) copy_view(call.out[o], shadow.views[static_cast<size_t>(o)]);
  KernelCall reference = call;
  reference.out = shadow.views.data();
  reference.scratch = shadow.scratch.data();
  reference.packed = nullptr;
  shadow.reference->run(reference);
}

void PlanChecker::after(size_t step, const KernelCall& call) {
  const Shadow& shadow = shadows_[step];
  if (!shadow.reference || !failure_.empty()) return;
  for (int o = 0; o < call.n_out; ++o) {
    const double tolerance = tolerance_of(call.out[o].dtype, tolerance_);
    if (tolerance == 0 || call.out[o].data == nullptr) continue;
    const Difference apart = difference(call.out[o], shadow.views[static_cast<size_t>(o)]);
    if (apart.agrees(tolerance)) continue;
    const PlanStep& culprit = plan_.steps()[step];
    char text[128];
    std::snprintf(text, sizeof text, "result %d is off by %.3g where the largest is %.3g", o + 1, apart.largest, apart.scale);
    failure_ = (culprit.scope.empty() ? "" : culprit.scope + ", ") + "op '" + culprit.op->name + "', kernel '" + culprit.kernel->name +
               "' (" + isa_name(culprit.kernel->isa) + "): " + text;
    return;
  }
}

}  // namespace perigee
