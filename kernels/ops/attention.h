// Scaled dot-product attention of H query heads on G key heads, G a divisor of H: query head h looks at key head h / (H / G).
// S queries, T keys, d features of a query and a key, v of a value.
//
// attention       in 0 q [N,S,H,d]  in 1 k [N,T,G,d]  in 2 v [N,T,G,v]  in 3 mask [N,T], optional: only keys where it is above 0 are looked at
//                 Without k and v, in 0 holds the heads of queries, keys and values one after another: [N,T,H+2G,d].
//                 out 0 o [N,S,H,v] = P V, P = dropout(softmax(scale Q K^T + bias)); a query that looks at no key gets 0
//                 out 1 L [N,H,S] = log(sum(exp(scores))), minus infinity where there is no key
//                 With `segments` the mask says to which sequence each step belongs: several lie one after the other in a row of S = T
//                 steps, each a run of one number, and a query looks only at keys of its own. Steps of 0 are of none, and are not looked at.
// attention_grad  in 0 do  in 1 to 3: q, k, v as above  in 4 mask, optional  in 5 o  in 6 L
//                 out 0 dq  out 1 dk  out 2 dv, or out 0 alone in the form of in 0. P = exp(scores - L) is computed again, so that no kernel
//                 keeps a matrix of S x T: dV = P^T dO, dS = P (dO V^T - rowsum(dO O)), dQ = scale dS K, dK = scale dS^T Q.
// Dao et al., "FlashAttention", 2022; grouped heads: Ainslie et al., "GQA", 2023.
#pragma once

#include <cstdint>

#include "kernels/philox.h"
#include "kernels/view.h"

namespace perigee {

struct AttentionParams {
  double scale = 1;
  int64_t groups = 0;     // G of one operand that holds queries, keys and values; 0: they are three operands
  int64_t shift = 0;      // query i stands at position i + shift among the keys
  int64_t window = 0;     // looks at keys less than so far away; 0: at all
  bool causal = false;    // not at keys behind its position
  bool segments = false;  // the mask has the numbers of sequences
  bool alibi = false;     // bias: -slope of the head times the distance (Press et al. 2022)
  double dropout = 0;     // probability that an element of P becomes 0; the others grow by 1 / (1 - dropout)
  uint64_t stream = 0;    // of the draws, one for each example: element (h S + i) (T rounded up to 4) + j (kernels/philox.h)
};

// The keys that a query may look at: [first, end).
struct KeyRange {
  int64_t first, end;
};

constexpr KeyRange keys_of(const AttentionParams& p, int64_t query, int64_t keys) {
  const int64_t at = query + p.shift;
  int64_t first = p.window > 0 ? at - p.window + 1 : 0;
  int64_t end = p.causal ? at + 1 : p.window > 0 ? at + p.window : keys;
  first = first < 0 ? 0 : first;
  end = end > keys ? keys : end;
  return {first, end < first ? first : end};
}

// The queries that may look at a key.
constexpr KeyRange queries_of(const AttentionParams& p, int64_t key, int64_t queries) {
  int64_t first = p.causal ? key - p.shift : p.window > 0 ? key - p.shift - p.window + 1 : 0;
  int64_t end = p.window > 0 ? key - p.shift + p.window : queries;
  first = first < 0 ? 0 : first;
  end = end > queries ? queries : end;
  return {first, end < first ? first : end};
}

// Whether a query may look at a key by the mask's numbers for the two.
template <class T>
constexpr bool mask_allows(const AttentionParams& p, T of_query, T of_key) {
  return of_key > T(0) && (!p.segments || of_query == of_key);
}

// ALiBi's slope of a head is 2 to this power: those of a power of two of heads, then every other one of twice as many.
constexpr double alibi_exponent(int64_t head, int64_t heads) {
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  return head < power ? -8.0 * static_cast<double>(head + 1) / static_cast<double>(power)
                      : -8.0 * static_cast<double>(2 * (head - power) + 1) / static_cast<double>(2 * power);
}

// Draws in a row of P: a row begins with a block of its own.
constexpr int64_t attention_blocks(int64_t keys) { return (keys + 3) / 4; }

// Queries, keys and values as windows on the operands, which begin with `qkv`.
struct AttentionOperands {
  View q, k, v;
  constexpr AttentionOperands(const View* qkv, const AttentionParams& params) : q(qkv[0]), k(qkv[0]), v(qkv[0]) {
    if (params.groups == 0) {
      k = qkv[1];
      v = qkv[2];
      return;
    }
    const int64_t heads = qkv[0].dims[2] - 2 * params.groups;
    q.dims[2] = heads;
    k.dims[2] = v.dims[2] = params.groups;
    const int64_t bytes = qkv[0].strides[2] * static_cast<int64_t>(dtype_bytes(qkv[0].dtype));
    k.data = static_cast<char*>(qkv[0].data) + heads * bytes;
    v.data = static_cast<char*>(qkv[0].data) + (heads + params.groups) * bytes;
  }
};

}  // namespace perigee
