// Shared by attention forward and backward: what queries and keys look at each other, exponents of their scores, products of tiles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/ops/attention.h"
#include "kernels/registry.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE::attention {

constexpr int64_t kBlock = 16;  // queries whose scores are computed together; a multiple of every kLanes
constexpr float kNone = -__builtin_inff();

constexpr int64_t round_up(int64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }
constexpr int64_t round_down(int64_t n) { return n / kBlock * kBlock; }

// The float at [n, step, head, 0].
inline float* at(const View& x, int64_t n, int64_t step, int64_t head) {
  return x.as<float>() + n * x.strides[0] + step * x.strides[1] + head * x.strides[2];
}

inline const char* decline(const KernelCall& call) {
  for (int i = 0; i < call.n_in; ++i) {
    const View& x = call.in[i];
    if (x.data == nullptr) continue;
    if (x.dtype != Dtype::f32) return "only f32";
    if (x.rank == 4 && x.dims[3] > 1 && x.strides[3] != 1) return "a head's features must lie side by side";
    if (x.rank == 4 && x.dims[3] > 512) return "only up to 512 features of a head";
  }
  for (int i = 0; i < call.n_out; ++i)
    if (call.out[i].rank == 4 && call.out[i].dims[3] > 1 && call.out[i].strides[3] != 1) return "a head's features must lie side by side";
  return nullptr;
}

// The sequence in which each step of an example lies, [first, end). Null pointers: all steps are one.
struct Runs {
  int32_t *first = nullptr, *end = nullptr;
  static int64_t floats(const AttentionParams& p, int64_t steps) { return p.segments ? 2 * round_up(steps) : 0; }
  static Runs in(float* room, const AttentionParams& p, int64_t steps) {
    if (!p.segments) return {};
    auto* numbers = reinterpret_cast<int32_t*>(room);
    return {numbers, numbers + round_up(steps)};
  }
  // The part of `range` that steps [a, b] of the other side may look at, or are looked at by.
  KeyRange cut(KeyRange range, int64_t a, int64_t b) const {
    if (first == nullptr) return range;
    range.first = std::max<int64_t>(range.first, first[a]);
    range.end = std::min<int64_t>(range.end, end[b]);
    return range;
  }
};

// One call: its sizes, and what one head or example needs to know.
struct Problem {
  const KernelCall& call;
  const AttentionParams& p;
  AttentionOperands x;
  View mask;
  int64_t n, queries, keys, heads, groups, features, values;

  Problem(const KernelCall& from, const View* qkv, const View& of)
      : call(from),
        p(from.as<AttentionParams>()),
        x(qkv, p),
        mask(of),
        n(x.q.dims[0]),
        queries(x.q.dims[1]),
        keys(x.k.dims[1]),
        heads(x.q.dims[2]),
        groups(x.k.dims[2]),
        features(x.q.dims[3]),
        values(x.v.dims[3]) {}

  // 0 where a key counts, else minus infinity; whole vectors.
  void write_bias(int64_t example, float* bias) const {
    for (int64_t j = 0; j < round_up(keys); ++j) {
      const bool counts = j < keys && (mask.data == nullptr || mask.as<float>()[example * mask.strides[0] + j * mask.strides[1]] > 0);
      bias[j] = counts ? 0 : kNone;
    }
  }

  // The ends of each step's run of equal numbers in the mask: those of its sequence.
  void write_runs(int64_t example, Runs* runs) const {
    if (!p.segments) return;
    const float* row = mask.as<float>() + example * mask.strides[0];
    for (int64_t i = 0, first = 0; i < keys; ++i) {
      if (i > 0 && row[i * mask.strides[1]] != row[(i - 1) * mask.strides[1]]) first = i;
      runs->first[i] = static_cast<int32_t>(first);
    }
    for (int64_t i = keys - 1; i >= 0; --i)
      runs->end[i] = i + 1 < keys && runs->first[i + 1] == runs->first[i] ? runs->end[i + 1] : static_cast<int32_t>(i + 1);
  }

  float slope(int64_t head) const { return p.alibi ? std::exp2(static_cast<float>(alibi_exponent(head, heads))) : 0; }
};

// Which keys of a tile a block of queries looks at: whole blocks, counted from the tile's first key.
struct Span {
  int64_t first = 0, end = 0;  // end: whole vectors; empty where no key of the tile is looked at
  int64_t inside = 0;          // end without what lies behind the last key
};

inline Span span_of(const Problem& a, const Runs& runs, int64_t query, int64_t rows, int64_t key, int64_t count) {
  const int64_t last = query + rows - 1;
  const KeyRange range = runs.cut({keys_of(a.p, query, a.keys).first, keys_of(a.p, last, a.keys).end}, query, last);
  const int64_t first = std::max(range.first - key, int64_t{0}), end = std::min(range.end - key, count);
  if (end <= first) return {};
  return {round_down(first), round_up(end), end};
}

// Element (query i, key j) of a row that begins at key `key`.
struct Row {
  int64_t first, end;  // of the tile, that the query looks at
  float position;      // of the query, from the tile's first key on
  Row(const Problem& a, const Runs& runs, int64_t query, int64_t key, int64_t count) {
    const KeyRange range = runs.cut(keys_of(a.p, query, a.keys), query, query);
    first = std::max(range.first - key, int64_t{0});
    end = std::min(range.end - key, count);
    position = static_cast<float>(query + a.p.shift - key);
  }
  // Whether the query looks at every key of the span, and no mask or bias says otherwise: its exponents are the scores times a scale.
  bool plain(const Problem& a, const Span& span) const {
    return a.mask.data == nullptr && !a.p.alibi && a.p.scale > 0 && first <= span.first && span.end <= end;
  }
};

inline Floats lane_places() { return __builtin_convertvector(lane_numbers(), Floats); }

// The scores of one row become exponents: scaled, biased, minus infinity where the query does not look.
template <bool Alibi>
inline Floats exponents(float* s, const float* bias, int64_t j, const Row& row, float scale, float slope, Floats lanes) {
  Floats v = load(s + j) * scale + load(bias + j);
  if (Alibi) v -= slope * magnitude(lanes + (static_cast<float>(j) - row.position));
  if (j < row.first || j + kLanes > row.end) {
    const Floats place = lanes + static_cast<float>(j);
    v = choose((place >= static_cast<float>(row.first)) & (place < static_cast<float>(row.end)), v, all(kNone));
  }
  return v;
}

// exp for arguments that are above 0 by no more than a rounding; exp(-87.3) below that.
inline Floats small_exp(Floats x) {
  const Reduced reduced = reduce_exp(choose(x < -87.3f, all(-87.3f), x));
  return (reduced.minus_one + 1.0f) * power_of_two(__builtin_convertvector(reduced.n, Ints));
}

// The same, but 0 below -87.3.
inline Floats exp_below_zero(Floats x) { return choose(x < -87.3f, Floats{}, small_exp(x)); }

// 1 / (1 - dropout) where a key is kept, else 0, for keys [key, key + count) of a query.
class Draws {
 public:
  Draws(const Problem& a, int64_t example, int64_t head)
      : key_(philox_key(a.call.step ? a.call.step->seed : 0, a.p.stream)),
        epoch_(a.call.step ? a.call.step->epoch : 0),
        example_(static_cast<uint64_t>(a.call.step && a.call.step->example_ids ? a.call.step->example_ids[example] : example)),
        row_(head * a.queries),
        blocks_(attention_blocks(a.keys)),
        rate_(static_cast<float>(a.p.dropout)),
        kept_(static_cast<float>(1 / (1 - a.p.dropout))) {}

  // `key` and `end - key` are multiples of 4.
  void write(int64_t query, int64_t key, int64_t end, float* to) const {
    const uint32_t first = static_cast<uint32_t>((row_ + query) * blocks_ + key / 4);
    const int64_t count = (end - key) / 4;
#pragma omp simd
    for (int64_t b = 0; b < count; ++b) {
      const PhiloxBlock draw = philox_for_example(key_, epoch_, example_, first + static_cast<uint32_t>(b));
      for (int lane = 0; lane < 4; ++lane) to[4 * b + lane] = uniform_from_bits(draw.lane[lane]) < rate_ ? 0.0f : kept_;
    }
  }

 private:
  PhiloxKey key_;
  uint64_t epoch_, example_;
  int64_t row_, blocks_;
  float rate_, kept_;
};

// Rows of A with contiguous k: C [m, n] = A B. A panel of B stays in the nearest cache while the rows of A go over it.
inline void scores_of(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc) {
  gemm::multiply<true>({.m = m, .n = n, .k = k, .a = a, .a_stride = lda, .b = b, .ldb = ldb, .c = c, .ldc = ldc});
}

// Rows of A with contiguous k: C [m, n] = A B, joined to what is there when `accumulate`.
inline void product(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
                    bool accumulate) {
  gemm::multiply_by_rows<true>(
      {.m = m, .n = n, .k = k, .a = a, .a_stride = lda, .b = b, .ldb = ldb, .c = c, .ldc = ldc, .finish = {.accumulate = accumulate}});
}

}  // namespace PERIGEE_CPU_NAMESPACE::attention
}  // namespace perigee
