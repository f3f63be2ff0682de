// Shared by the kernels of attention: which keys a query looks at, and what becomes of a score.
#pragma once

#include <cmath>

#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/kernel.h"
#include "kernels/ops/attention.h"

namespace perigee {

// [N, steps, heads, features] with its strides.
struct Heads {
  Elements of;
  int64_t n = 0, step = 0, head = 0, feature = 0;
  int64_t features = 0;
  Heads() = default;
  explicit Heads(const View& x)
      : of(x), n(x.strides[0]), step(x.strides[1]), head(x.strides[2]), feature(x.strides[3]), features(x.dims[3]) {}
  __device__ int64_t row(int64_t example, int64_t steps, int64_t heads) const { return example * n + steps * step + heads * head; }
};

// [N, heads, queries].
struct PerQuery {
  Elements of;
  int64_t n = 0, head = 0, query = 0;
  PerQuery() = default;
  explicit PerQuery(const View& x) : of(x), n(x.strides[0]), head(x.strides[1]), query(x.strides[2]) {}
  __device__ int64_t at(int64_t example, int64_t heads, int64_t queries) const { return example * n + heads * head + queries * query; }
};

struct AttentionCall {
  AttentionParams p;
  Heads q, k, v, o, d_out, dq, dk, dv;
  PerQuery sums;
  Elements mask;
  int64_t mask_n = 0, mask_key = 0;
  int64_t n = 0, queries = 0, keys = 0, heads = 0, groups = 0;
  const StepInfo* step = nullptr;
  double* means = nullptr;  // rowsum(dO O) of each query, [N, heads, queries]

  AttentionCall(const KernelCall& call, const View* qkv, const View& of_mask) : p(call.as<AttentionParams>()), step(call.step) {
    const AttentionOperands x(qkv, p);
    q = Heads(x.q), k = Heads(x.k), v = Heads(x.v);
    mask = Elements(of_mask);
    if (of_mask.data != nullptr) mask_n = of_mask.strides[0], mask_key = of_mask.strides[1];
    n = x.q.dims[0], queries = x.q.dims[1], keys = x.k.dims[1], heads = x.q.dims[2], groups = x.k.dims[2];
  }

  __device__ bool looks(int64_t example, int64_t query, int64_t key) const {
    const KeyRange range = keys_of(p, query, keys);
    if (query >= queries || key < range.first || key >= range.end) return false;
    if (mask.data == nullptr) return true;
    return mask_allows(p, p.segments ? mask_at(example, query) : 0.0f, mask_at(example, key));
  }

  __device__ float mask_at(int64_t example, int64_t at) const { return mask.load<float>(example * mask_n + at * mask_key); }

  template <class T>
  __device__ T score(T product, int64_t head, int64_t query, int64_t key) const {
    T s = product * static_cast<T>(p.scale);
    if (p.alibi) {
      const int64_t distance = query + p.shift - key;
      s -= std::exp2(static_cast<T>(alibi_exponent(head, heads))) * static_cast<T>(distance < 0 ? -distance : distance);
    }
    return s;
  }

  // 1 after dropout.
  __device__ double kept(int64_t example, int64_t head, int64_t query, int64_t key) const {
    if (p.dropout == 0) return 1;
    const uint64_t id = static_cast<uint64_t>(step != nullptr && step->example_ids != nullptr ? step->example_ids[example] : example);
    const int64_t block = (head * queries + query) * attention_blocks(keys) + key / 4;
    const PhiloxBlock draw = philox_for_example(philox_key(step != nullptr ? step->seed : 0, p.stream), step != nullptr ? step->epoch : 0,
                                                id, static_cast<uint32_t>(block));
    return uniform_from_bits(draw.lane[key % 4]) < static_cast<float>(p.dropout) ? 0 : 1 / (1 - p.dropout);
  }
};

inline AttentionCall forward_call(const KernelCall& call) {
  AttentionCall all(call, call.in, call.n_in > 3 ? call.in[3] : View{});
  all.o = Heads(call.out[0]);
  all.sums = PerQuery(call.out[1]);
  return all;
}

inline AttentionCall backward_call(const KernelCall& call) {
  AttentionCall all(call, call.in + 1, call.in[4]);
  const AttentionOperands to(call.out, all.p);
  all.d_out = Heads(call.in[0]);
  all.o = Heads(call.in[5]);
  all.sums = PerQuery(call.in[6]);
  all.dq = Heads(to.q), all.dk = Heads(to.k), all.dv = Heads(to.v);
  all.means = static_cast<double*>(call.scratch);
  return all;
}

inline size_t backward_means(const KernelCall& call) { return static_cast<size_t>(call.in[6].elements()) * sizeof(double); }

}  // namespace perigee
