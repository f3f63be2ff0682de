// Updates element by element, over any strides.
#include "kernels/ops/update_rules.h"

#include <array>

#include "kernels/registry.h"

namespace perigee {
namespace {

template <class T>
T& update_element(const View& v, int64_t index) {
  int64_t offset = 0;
  for (int i = v.rank - 1; i >= 0; --i) {
    offset += index % v.dims[i] * v.strides[i];
    index /= v.dims[i];
  }
  return v.as<T>()[offset];
}

template <class T, class Rule>
void update(const KernelCall& call) {
  const auto& params = call.as<UpdateParams>();
  const update::Gradient<T> prepare(params);
  const typename Rule::template Step<T> step(params);
  const bool full = update::Gradient<T>::wanted(params);
  const T decay = T(params.decay);
  for (int64_t i = 0; i < call.out[0].elements(); ++i) {
    T& p = update_element<T>(call.out[0], i);
    const T gradient = update_element<T>(call.in[0], i);
    const T g = full ? prepare.full(gradient, p) : prepare.plain(gradient);
    T delta;
    if constexpr (Rule::kSlots == 0) delta = step(g);
    if constexpr (Rule::kSlots == 1) delta = step(g, update_element<T>(call.out[1], i));
    if constexpr (Rule::kSlots == 2) delta = step(g, update_element<T>(call.out[1], i), update_element<T>(call.out[2], i));
    if constexpr (Rule::kSlots == 3)
      delta = step(g, update_element<T>(call.out[1], i), update_element<T>(call.out[2], i), update_element<T>(call.out[3], i));
    p = (p - decay * p) - delta;
  }
}

template <class Rule>
void run_update(const KernelCall& call) {
  call.out[0].dtype == Dtype::f64 ? update<double, Rule>(call) : update<float, Rule>(call);
}

const char* decline_update(const KernelCall& call) {
  for (int i = 0; i < call.n_out; ++i)
    if (call.out[i].dtype != call.in[0].dtype) return "mixed dtypes";
  return call.in[0].dtype == Dtype::f32 || call.in[0].dtype == Dtype::f64 ? nullptr : "only f32 and f64";
}

void keep(const KernelCall&) {}

template <class Rule>
constexpr Kernel kernel() {
  return {.op = Rule::kOp, .name = "ref", .decline = decline_update, .run = run_update<Rule>};
}

template <class... Rule>
constexpr std::array<Kernel, sizeof...(Rule) + 1> kernels(update::RuleList<Rule...>) {
  return {kernel<Rule>()..., Kernel{.op = "update_noop", .name = "ref", .run = keep}};
}

constexpr auto kUpdateKernels = kernels(update::Rules());

}  // namespace

extern const KernelList kernels_ref_update;
const KernelList kernels_ref_update = {kUpdateKernels.data(), kUpdateKernels.size()};

}  // namespace perigee
