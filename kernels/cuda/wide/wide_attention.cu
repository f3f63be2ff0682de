// Attention in f64, and with heads of more features than tiles take: a thread for each element of a result.
#include "kernels/cuda/attention/attention.cuh"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

__device__ __attribute__((noinline)) double plain_exp(double x) { return std::exp(x); }

__device__ __attribute__((noinline)) double dot(const Heads& a, int64_t at, const Heads& b, int64_t to) {
  double sum = 0;
#pragma unroll 1
  for (int64_t c = 0; c < a.features; ++c) sum += a.of.load<double>(at + c * a.feature) * b.of.load<double>(to + c * b.feature);
  return sum;
}

// An element of [N, steps, heads, features].
struct Element {
  int64_t example, step, head, feature;
  __device__ Element(int64_t i, int64_t steps, int64_t heads, int64_t features)
      : example(i / features / heads / steps), step(i / features / heads % steps), head(i / features % heads), feature(i % features) {}
};

__global__ void __launch_bounds__(kThreads) attention_plain(const __grid_constant__ AttentionCall call) {
  begin_kernel();
  const int64_t results = call.n * call.queries * call.heads * call.o.features;
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < results; i += threads_of_grid()) {
    const Element e(i, call.queries, call.heads, call.o.features);
    const int64_t group = e.head / (call.heads / call.groups);
    const KeyRange range = keys_of(call.p, e.step, call.keys);
    double most = -1e300, total = 0, value = 0;
#pragma unroll 1
    for (int64_t j = range.first; j < range.end; ++j) {
      if (!call.looks(e.example, e.step, j)) continue;
      const double product = dot(call.q, call.q.row(e.example, e.step, e.head), call.k, call.k.row(e.example, j, group));
      const double score = call.score(product, e.head, e.step, j), now = score > most ? score : most, lower = plain_exp(most - now);
      const double weight = plain_exp(score - now),
                   x = call.v.of.load<double>(call.v.row(e.example, j, group) + e.feature * call.v.feature);
      total = total * lower + weight;
      value = value * lower + weight * call.kept(e.example, e.head, e.step, j) * x;
      most = now;
    }
    call.o.of.store<double>(call.o.row(e.example, e.step, e.head) + e.feature * call.o.feature, total > 0 ? value / total : 0.0);
    if (e.feature == 0)
      call.sums.of.store<double>(call.sums.at(e.example, e.head, e.step),
                                 total > 0 ? most + std::log(total) : -static_cast<double>(INFINITY));
  }
}

// The weight of a key's value for a query, and what flows to their score.
struct Flow {
  double weight = 0, score = 0;
  __device__ __attribute__((noinline)) Flow(const AttentionCall& call, int64_t example, int64_t head, int64_t query, int64_t key) {
    if (!call.looks(example, query, key)) return;
    const int64_t group = head / (call.heads / call.groups), d_out = call.d_out.row(example, query, head);
    const double product = dot(call.q, call.q.row(example, query, head), call.k, call.k.row(example, key, group));
    const double p = plain_exp(call.score(product, head, query, key) - call.sums.of.load<double>(call.sums.at(example, head, query)));
    const double kept = call.kept(example, head, query, key);
    const double slope = dot(call.d_out, d_out, call.v, call.v.row(example, key, group));
    weight = p * kept;
    score = p * (slope * kept - dot(call.d_out, d_out, call.o, call.o.row(example, query, head))) * call.p.scale;
  }
};

__global__ void __launch_bounds__(kThreads) attention_grad_queries_plain(const __grid_constant__ AttentionCall call) {
  begin_kernel();
  const int64_t results = call.n * call.queries * call.heads * call.dq.features;
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < results; i += threads_of_grid()) {
    const Element e(i, call.queries, call.heads, call.dq.features);
    const int64_t group = e.head / (call.heads / call.groups);
    const KeyRange range = keys_of(call.p, e.step, call.keys);
    double sum = 0;
#pragma unroll 1
    for (int64_t j = range.first; j < range.end; ++j)
      sum += Flow(call, e.example, e.head, e.step, j).score *
             call.k.of.load<double>(call.k.row(e.example, j, group) + e.feature * call.k.feature);
    call.dq.of.store<double>(call.dq.row(e.example, e.step, e.head) + e.feature * call.dq.feature, sum);
  }
}

// Sums over the queries that look at a key: of dO by weights, or of Q by what flows to the scores.
template <bool Values>
__global__ void __launch_bounds__(kThreads) attention_grad_keys_plain(const __grid_constant__ AttentionCall call) {
  begin_kernel();
  const Heads &to = Values ? call.dv : call.dk, &from = Values ? call.d_out : call.q;
  const int64_t results = call.n * call.keys * call.groups * to.features, shared = call.heads / call.groups;
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < results; i += threads_of_grid()) {
    const Element e(i, call.keys, call.groups, to.features);
    const KeyRange range = queries_of(call.p, e.step, call.queries);
    double sum = 0;
#pragma unroll 1
    for (int64_t head = e.head * shared; head < (e.head + 1) * shared; ++head)
#pragma unroll 1
      for (int64_t query = range.first; query < range.end; ++query) {
        const Flow flow(call, e.example, head, query, e.step);
        sum += (Values ? flow.weight : flow.score) * from.of.load<double>(from.row(e.example, query, head) + e.feature * from.feature);
      }
    to.of.store<double>(to.row(e.example, e.step, e.head) + e.feature * to.feature, sum);
  }
}

void forward(const KernelCall& call) {
  const AttentionCall all = forward_call(call);
  Launches on(*call.queue, "attention");
  on.launch(attention_plain, blocks_for(call.out[0].elements()), kThreads, all);
}

void backward(const KernelCall& call) {
  const AttentionCall all = backward_call(call);
  const int64_t keys = all.n * all.keys * all.groups;
  Launches on(*call.queue, "attention_grad");
  on.launch(attention_grad_queries_plain, blocks_for(all.n * all.queries * all.heads * all.dq.features), kThreads, all);
  on.launch(attention_grad_keys_plain<false>, blocks_for(keys * all.dk.features), kThreads, all);
  on.launch(attention_grad_keys_plain<true>, blocks_for(keys * all.dv.features), kThreads, all);
}

const Kernel kKernels[] = {
    {.op = "attention", .name = "plain", .backend = Backend::cuda, .run = forward},
    {.op = "attention_grad", .name = "plain", .backend = Backend::cuda, .run = backward},
};

}  // namespace

extern const KernelList kernels_cuda_wide_attention;
const KernelList kernels_cuda_wide_attention = kernel_list(kKernels);

}  // namespace perigee
