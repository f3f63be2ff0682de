#include "kernels/ops/attention_step.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/attention.h"
#include "kernels/ref/strided.h"
#include "kernels/ref/widened.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

template <class T>
double at(const View& x, int64_t n, int64_t step, int64_t head, int64_t feature) {
  return static_cast<double>(x.as<T>()[n * x.strides[0] + step * x.strides[1] + head * x.strides[2] + feature * x.strides[3]]);
}

// One query of one head: scores of the steps from its own backwards, then the mean of their values.
template <class T>
void look(const KernelCall& call, int64_t n, int64_t h) {
  const auto& p = call.as<AttentionStepParams>();
  const View &x = call.in[0], &past = call.in[1], &before = call.in[2], &o = call.out[0];
  const int64_t heads = x.dims[2] - 2 * p.groups, g = h / (heads / p.groups), slots = past.dims[1];
  const int64_t steps = before.as<int64_t>()[n * before.strides[0]], looked = steps_looked_at(steps, slots);
  const auto key = [&](int64_t back, int64_t c) {
    return back == 0 ? at<T>(x, n, 0, heads + g, c) : at<T>(past, n, slot_of_step(steps, back, slots), g, c);
  };
  const auto value = [&](int64_t back, int64_t c) {
    return back == 0 ? at<T>(x, n, 0, heads + p.groups + g, c) : at<T>(past, n, slot_of_step(steps, back, slots), p.groups + g, c);
  };
  const auto score = [&](int64_t back) {
    double sum = 0;
    for (int64_t c = 0; c < x.dims[3]; ++c) sum += at<T>(x, n, 0, h, c) * key(back, c);
    return sum * p.scale - (p.alibi ? std::exp2(alibi_exponent(h, heads)) * static_cast<double>(back) : 0);
  };
  double most = score(0), sum = 0;
  for (int64_t back = 1; back <= looked; ++back) most = std::max(most, score(back));
  for (int64_t back = 0; back <= looked; ++back) sum += std::exp(score(back) - most);
  for (int64_t c = 0; c < x.dims[3]; ++c) {
    double mean = 0;
    for (int64_t back = 0; back <= looked; ++back) mean += std::exp(score(back) - most) / sum * value(back, c);
    o.as<T>()[n * o.strides[0] + h * o.strides[2] + c * o.strides[3]] = static_cast<T>(mean);
  }
}

void run_attention_step(const KernelCall& call) {
  const View& o = call.out[0];
  for (int64_t n = 0; n < o.dims[0]; ++n)
    for (int64_t h = 0; h < o.dims[2]; ++h) o.dtype == Dtype::f64 ? look<double>(call, n, h) : look<float>(call, n, h);
}

const Kernel kAttentionStepKernels[] = {
    {.op = "attention_step", .name = "ref", .run = widened<run_attention_step>, .scratch_bytes = widened_scratch<>}};

}  // namespace

extern const KernelList kernels_ref_attention_step;
const KernelList kernels_ref_attention_step = kernel_list(kAttentionStepKernels);

}  // namespace perigee
