// Attention alone, forward and backward, on one thread: attention_bench EXAMPLES STEPS HEADS FEATURES CAUSAL prints milliseconds of CPU time.
// attention.py runs it and PyTorch in turns.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "kernels/ops/attention.h"
#include "kernels/registry.h"
#include "src/tensor/tensor.h"

using namespace perigee;

namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The host's kernel for the widest instruction set, which comes last.
const Kernel& kernel_of(std::string_view op) {
  const Kernel* found = nullptr;
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (op == list.first[i].op && list.first[i].backend == Backend::cpu) found = &list.first[i];
  return *found;
}

// The least time of one call, in milliseconds.
double time_of(const Kernel& kernel, KernelCall call) {
  Storage scratch(kernel.scratch_bytes(call) + 64);
  call.scratch = scratch.data();
  double best = 1e30;
  kernel.run(call);
  for (int repeat = 0; repeat < 9; ++repeat) {
    const double begin = cpu_seconds();
    int calls = 0;
    do kernel.run(call), ++calls;
    while (cpu_seconds() - begin < 0.1);
    best = std::min(best, (cpu_seconds() - begin) / calls);
  }
  return best * 1e3;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) return std::fprintf(stderr, "attention_bench EXAMPLES STEPS HEADS FEATURES CAUSAL\n"), 2;
  const auto number = [&](int i) { return static_cast<int64_t>(std::atoll(arguments[i])); };
  const int64_t n = number(1), steps = number(2), heads = number(3), features = number(4);
  const AttentionParams params{.scale = 1 / std::sqrt(static_cast<double>(features)), .groups = heads, .causal = number(5) != 0};
  Tensor qkv(Dtype::f32, Shape{n, steps, 3 * heads, features}), o(Dtype::f32, Shape{n, steps, heads, features});
  Tensor sums(Dtype::f32, Shape{n, heads, steps}), d_out(Dtype::f32, o.shape()), d_qkv(Dtype::f32, qkv.shape());
  for (Tensor* x : {&qkv, &d_out})
    for (int64_t i = 0; i < x->elements(); ++i) x->data<float>()[i] = static_cast<float>(i * 7919 % 1000) / 250 - 2;
  const View forward_in[] = {qkv.view(), {}, {}}, forward_out[] = {o.view(), sums.view()};
  const View backward_in[] = {d_out.view(), qkv.view(), {}, {}, {}, o.view(), sums.view()}, backward_out[] = {d_qkv.view()};
  const double forward = time_of(kernel_of("attention"), {.in = forward_in, .out = forward_out, .n_in = 3, .n_out = 2, .params = &params});
  const double backward =
      time_of(kernel_of("attention_grad"), {.in = backward_in, .out = backward_out, .n_in = 7, .n_out = 1, .params = &params});
  std::printf("{\"forward_ms\":%.4f,\"backward_ms\":%.4f}\n", forward, backward);
  return 0;
}
