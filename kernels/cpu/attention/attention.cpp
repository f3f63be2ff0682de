// Attention by tiles: the scores of a few queries and at most kMostKeys keys stay in the nearest caches, and products run on the register
// tiles of gemm.h. Keys, and backward values too, are transposed once for all queries. What causality or a window excludes is left out by
// blocks of kBlock queries or keys; so is what lies in other sequences of the row. With more keys than a tile has, a running maximum and sum join the tiles (Milakov and Gimelshein 2018).
#include "kernels/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/registry.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {
namespace {

constexpr int64_t kBlock = 16;      // queries whose scores are computed together; a multiple of every kLanes
constexpr int64_t kMostKeys = 256;  // of a tile, forward
constexpr int64_t kMostRows = 128;  // of a tile, backward: queries, and keys
// Rows of a tile lie so far apart: at a power of two they would share few places of the nearest cache.
constexpr int64_t kKeyPitch = kMostKeys + kBlock, kPitch = kMostRows + kBlock;
constexpr float kNone = -__builtin_inff(), kLeast = -1e30f;

constexpr int64_t round_up(int64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }
constexpr int64_t round_down(int64_t n) { return n / kBlock * kBlock; }

// The float at [n, step, head, 0].
float* at(const View& x, int64_t n, int64_t step, int64_t head) {
  return x.as<float>() + n * x.strides[0] + step * x.strides[1] + head * x.strides[2];
}

const char* decline(const KernelCall& call) {
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

Span span_of(const Problem& a, const Runs& runs, int64_t query, int64_t rows, int64_t key, int64_t count) {
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
};

Floats lane_places() { return __builtin_convertvector(lane_numbers(), Floats); }

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

// exp for arguments that are never above 0; 0 below -87.
inline Floats exp_below_zero(Floats x) {
  const Floats inside = choose(x < -87.3f, all(-87.3f), x);
  const Reduced reduced = reduce_exp(inside);
  const Floats y = (reduced.minus_one + 1.0f) * power_of_two(__builtin_convertvector(reduced.n, Ints));
  return choose(x < -87.3f, Floats{}, y);
}

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

// Rows of A with contiguous k: C [m, n] = A B, joined to what is there when `accumulate`.
inline void product(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
                    bool accumulate) {
  gemm::multiply_by_rows<true>(
      {.m = m, .n = n, .k = k, .a = a, .a_stride = lda, .b = b, .ldb = ldb, .c = c, .ldc = ldc, .finish = {.accumulate = accumulate}});
}

// C [m, n] += A^T B, A with contiguous m.
inline void product_of_transposed(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                                  int64_t ldc) {
  gemm::multiply_by_rows<false>(
      {.m = m, .n = n, .k = k, .a = a, .a_stride = lda, .b = b, .ldb = ldb, .c = c, .ldc = ldc, .finish = {.accumulate = true}});
}

// --- forward ---

struct ForwardScratch {
  int64_t keys, bias, scores, draws, runs, total;  // first floats of each
  explicit ForwardScratch(const Problem& a) {
    keys = 0;
    bias = keys + a.features * pitch(a);
    scores = bias + round_up(a.keys);
    draws = scores + kBlock * kKeyPitch;
    runs = draws + (a.p.dropout > 0 ? kMostKeys : 0);
    total = runs + Runs::floats(a.p, a.keys);
  }
  static int64_t pitch(const Problem& a) { return round_up(a.keys) + kBlock; }  // of the transposed keys
};

// kBlock queries of one head at most.
struct Softmax {
  float most[kBlock], sum[kBlock];

  // Scores become exp(score - most); what was summed before is lowered to a new maximum.
  template <bool Alibi>
  void join(const Problem& a, const Runs& runs, float* scores, int64_t rows, const Span& span, const float* bias, float slope,
            int64_t query, int64_t key, int64_t count, float* o, int64_t o_stride, bool first) {
    const Floats lanes = lane_places();
    const float scale = static_cast<float>(a.p.scale);
    for (int64_t r = 0; r < rows; ++r) {
      const Row row(a, runs, query + r, key, count);
      float* s = scores + r * kKeyPitch;
      Floats top = all(kLeast);
      for (int64_t j = span.first; j < span.end; j += kLanes) {
        const Floats v = exponents<Alibi>(s, bias, j, row, scale, slope, lanes);
        store(s + j, v);
        top = v > top ? v : top;
      }
      const float now = first ? largest_lane(top) : std::max(most[r], largest_lane(top));
      Floats total = {};
      for (int64_t j = span.first; j < span.end; j += kLanes) {
        const Floats e = exp_below_zero(load(s + j) - now);
        store(s + j, e);
        total += e;
      }
      if (first) {
        sum[r] = sum_lanes(total);
      } else {
        const float lower = std::exp(most[r] - now);
        sum[r] = sum[r] * lower + sum_lanes(total);
        for (int64_t c = 0; c < a.values; ++c) o[r * o_stride + c] *= lower;
      }
      most[r] = now;
    }
  }
};

void drop(const Draws& draws, float* scores, int64_t stride, int64_t rows, const Span& span, int64_t query, int64_t key, float* room) {
  for (int64_t r = 0; r < rows; ++r) {
    draws.write(query + r, key + span.first, key + span.end, room);
    float* s = scores + r * stride + span.first;
    for (int64_t j = 0; j < span.end - span.first; ++j) s[j] *= room[j];
  }
}

// Queries [query, query + rows) of a head look at all keys.
void forward_block(const Problem& a, const float* memory, float* scratch, int64_t example, int64_t head, int64_t query, int64_t rows) {
  const ForwardScratch room(a);
  const View& o = a.call.out[0];
  const int64_t group = head / (a.heads / a.groups), pitch = ForwardScratch::pitch(a);
  float *scores = scratch + room.scores, *to = at(o, example, query, head);
  const float slope = a.slope(head);
  const Runs runs = Runs::in(scratch + room.runs, a.p, a.keys);
  Softmax softmax;
  bool first = true;
  for (int64_t key = 0; key < a.keys; key += kMostKeys) {
    const int64_t count = std::min(kMostKeys, a.keys - key);
    const Span span = span_of(a, runs, query, rows, key, count);
    if (span.end == 0) continue;
    product(rows, span.end - span.first, a.features, at(a.x.q, example, query, head), a.x.q.strides[1], memory + key + span.first, pitch,
            scores + span.first, kKeyPitch, false);
    const auto join = a.p.alibi ? &Softmax::join<true> : &Softmax::join<false>;
    (softmax.*join)(a, runs, scores, rows, span, scratch + room.bias + key, slope, query, key, count, to, o.strides[1], first);
    if (a.p.dropout > 0) drop(Draws(a, example, head), scores, kKeyPitch, rows, span, query, key, scratch + room.draws);
    product(rows, a.values, span.inside - span.first, scores + span.first, kKeyPitch, at(a.x.v, example, key + span.first, group),
            a.x.v.strides[1], to, o.strides[1], !first);
    first = false;
  }
  const View& sums = a.call.out[1];
  for (int64_t r = 0; r < rows; ++r) {
    const bool any = !first && softmax.sum[r] > 0;
    const float inverse = any ? 1 / softmax.sum[r] : 0;
    float* row = to + r * o.strides[1];
    for (int64_t c = 0; c < a.values; ++c) row[c] = any ? row[c] * inverse : 0.0f;
    sums.as<float>()[example * sums.strides[0] + head * sums.strides[1] + (query + r) * sums.strides[2]] =
        any ? softmax.most[r] + std::log(softmax.sum[r]) : kNone;
  }
}

void forward(const KernelCall& call) {
  const Problem a(call, call.in, call.n_in > 3 ? call.in[3] : View{});
  const ForwardScratch room(a);
  float* scratch = static_cast<float*>(call.scratch);
  for (int64_t example = 0; example < a.n; ++example) {
    a.write_bias(example, scratch + room.bias);
    Runs runs = Runs::in(scratch + room.runs, a.p, a.keys);
    a.write_runs(example, &runs);
    for (int64_t group = 0; group < a.groups; ++group) {
      gemm::transpose_copy(at(a.x.k, example, 0, group), a.x.k.strides[1], a.keys, a.features, scratch + room.keys,
                           ForwardScratch::pitch(a), true);
      const int64_t shared = a.heads / a.groups;
      for (int64_t head = group * shared; head < (group + 1) * shared; ++head)
        for (int64_t query = 0; query < a.queries; query += kBlock)
          forward_block(a, scratch + room.keys, scratch, example, head, query, std::min(kBlock, a.queries - query));
    }
  }
}

size_t forward_scratch(const KernelCall& call) {
  return static_cast<size_t>(ForwardScratch(Problem(call, call.in, View{})).total) * sizeof(float);
}

// --- backward ---

struct BackwardScratch {
  int64_t keys, values, d_keys, d_values, bias, weights, slopes, means, draws, runs, total;  // first floats of each
  explicit BackwardScratch(const Problem& a) {
    const int64_t tile = round_up(std::min(a.keys, kMostRows));
    keys = 0;
    values = keys + a.features * kPitch;
    d_keys = values + a.values * kPitch;
    d_values = d_keys + tile * round_up(a.features);
    bias = d_values + tile * round_up(a.values);
    weights = bias + round_up(a.keys) + kMostRows;
    slopes = weights + kMostRows * kPitch;
    means = slopes + kMostRows * kPitch;
    draws = means + a.heads * a.queries;
    runs = draws + (a.p.dropout > 0 ? kMostRows : 0);
    total = runs + Runs::floats(a.p, a.keys);
  }
};

class Backward {
 public:
  explicit Backward(const KernelCall& call)
      : a_(call, call.in + 1, call.in[4]),
        to_(call.out, a_.p),
        room_(a_),
        scratch_(static_cast<float*>(call.scratch)),
        runs_(Runs::in(scratch_ + room_.runs, a_.p, a_.keys)) {}

  void run() {
    const int64_t shared = a_.heads / a_.groups;
    for (example_ = 0; example_ < a_.n; ++example_) {
      a_.write_bias(example_, scratch_ + room_.bias);
      a_.write_runs(example_, &runs_);
      write_means();
      for (int64_t group = 0; group < a_.groups; ++group) {
        for (int64_t key = 0; key < a_.keys; key += kMostRows) {
          begin_keys(group, key);
          for (head_ = group * shared; head_ < (group + 1) * shared; ++head_)
            for (int64_t query = 0; query < a_.queries; query += kMostRows) tile(query, std::min(kMostRows, a_.queries - query));
          end_keys();
        }
      }
    }
  }

 private:
  // rowsum(dO O) of each query.
  void write_means() {
    const View &d_out = a_.call.in[0], &o = a_.call.in[5];
    for (int64_t head = 0; head < a_.heads; ++head)
      for (int64_t i = 0; i < a_.queries; ++i) {
        const float *x = at(d_out, example_, i, head), *y = at(o, example_, i, head);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < a_.values; ++c) sum += x[c] * y[c];
        scratch_[room_.means + head * a_.queries + i] = sum;
      }
  }

  void begin_keys(int64_t group, int64_t key) {
    group_ = group, key_ = key, count_ = std::min(kMostRows, a_.keys - key);
    gemm::transpose_copy(at(a_.x.k, example_, key, group), a_.x.k.strides[1], count_, a_.features, scratch_ + room_.keys, kPitch, true);
    gemm::transpose_copy(at(a_.x.v, example_, key, group), a_.x.v.strides[1], count_, a_.values, scratch_ + room_.values, kPitch, true);
    std::memset(scratch_ + room_.d_keys, 0, static_cast<size_t>(room_.bias - room_.d_keys) * sizeof(float));
  }

  void end_keys() {
    for (int64_t j = 0; j < count_; ++j) {
      std::memcpy(at(to_.k, example_, key_ + j, group_), scratch_ + room_.d_keys + j * round_up(a_.features),
                  static_cast<size_t>(a_.features) * sizeof(float));
      std::memcpy(at(to_.v, example_, key_ + j, group_), scratch_ + room_.d_values + j * round_up(a_.values),
                  static_cast<size_t>(a_.values) * sizeof(float));
    }
  }

  // Queries [query, query + rows) of the head and the keys at hand.
  void tile(int64_t query, int64_t rows) {
    float *weights = scratch_ + room_.weights, *slopes = scratch_ + room_.slopes;
    for (int64_t r = 0; r < rows; r += kBlock) block(query + r, std::min(kBlock, rows - r), weights + r * kPitch, slopes + r * kPitch);
    const View& d_out = a_.call.in[0];
    for (int64_t j = 0; j < count_; j += kBlock) {
      const int64_t keys = std::min(kBlock, count_ - j);
      const int64_t from = key_ + j, last = from + keys - 1;
      const KeyRange range = runs_.cut({queries_of(a_.p, from, a_.queries).first, queries_of(a_.p, last, a_.queries).end}, from, last);
      const int64_t first = std::max(range.first - query, int64_t{0}), end = std::min(range.end - query, rows);
      if (end <= first) continue;
      product_of_transposed(keys, a_.values, end - first, weights + first * kPitch + j, kPitch, at(d_out, example_, query + first, head_),
                            d_out.strides[1], scratch_ + room_.d_values + j * round_up(a_.values), round_up(a_.values));
      product_of_transposed(keys, a_.features, end - first, slopes + first * kPitch + j, kPitch, at(a_.x.q, example_, query + first, head_),
                            a_.x.q.strides[1], scratch_ + room_.d_keys + j * round_up(a_.features), round_up(a_.features));
    }
  }

  // kBlock queries: probabilities, the gradients of their scores, and from these that of the queries.
  void block(int64_t query, int64_t rows, float* weights, float* slopes) {
    const View &d_out = a_.call.in[0], &q = a_.x.q, &k = a_.x.k;
    float* to = at(to_.q, example_, query, head_);
    const Span span = span_of(a_, runs_, query, rows, key_, count_);
    if (span.end == 0) {
      for (int64_t r = 0; r < rows && key_ == 0; ++r)
        std::memset(to + r * to_.q.strides[1], 0, static_cast<size_t>(a_.features) * sizeof(float));
      return;
    }
    const int64_t width = span.end - span.first;
    product(rows, width, a_.features, at(q, example_, query, head_), q.strides[1], scratch_ + room_.keys + span.first, kPitch,
            weights + span.first, kPitch, false);
    product(rows, width, a_.values, at(d_out, example_, query, head_), d_out.strides[1], scratch_ + room_.values + span.first, kPitch,
            slopes + span.first, kPitch, false);
    const auto row = a_.p.alibi ? &Backward::row<true> : &Backward::row<false>;
    for (int64_t r = 0; r < rows; ++r) (this->*row)(query + r, span, weights + r * kPitch, slopes + r * kPitch);
    product(rows, a_.features, span.inside - span.first, slopes + span.first, kPitch, at(k, example_, key_ + span.first, group_),
            k.strides[1], to, to_.q.strides[1], key_ > 0);
  }

  // Scores become probabilities (after dropout), and what flows to these becomes what flows to the scores.
  template <bool Alibi>
  void row(int64_t query, const Span& span, float* weights, float* slopes) {
    const View& sums = a_.call.in[6];
    const float total = sums.as<float>()[example_ * sums.strides[0] + head_ * sums.strides[1] + query * sums.strides[2]];
    const float minus = total == kNone ? -kNone : total;  // a query without keys: all its weights are 0
    const float mean = scratch_[room_.means + head_ * a_.queries + query], scale = static_cast<float>(a_.p.scale);
    const float slope = a_.slope(head_);
    const Row here(a_, runs_, query, key_, count_);
    const Floats lanes = lane_places();
    const float* bias = scratch_ + room_.bias + key_;
    const bool dropped = a_.p.dropout > 0;
    float* draws = scratch_ + room_.draws;
    if (dropped) Draws(a_, example_, head_).write(query, key_ + span.first, key_ + span.end, draws + span.first);
    for (int64_t j = span.first; j < span.end; j += kLanes) {
      const Floats v = exponents<Alibi>(weights, bias, j, here, scale, slope, lanes), weight = exp_of(v - minus);
      const Floats kept = dropped ? load(draws + j) : all(1);
      store(slopes + j, weight * (load(slopes + j) * kept - mean) * scale);
      store(weights + j, weight * kept);
    }
  }

  const Problem a_;
  const AttentionOperands to_;
  const BackwardScratch room_;
  float* const scratch_;
  Runs runs_;
  int64_t example_ = 0, group_ = 0, head_ = 0, key_ = 0, count_ = 0;
};

void backward(const KernelCall& call) { Backward(call).run(); }

size_t backward_scratch(const KernelCall& call) {
  return static_cast<size_t>(BackwardScratch(Problem(call, call.in + 1, View{})).total) * sizeof(float);
}

const Kernel kKernels[] = {
    {.op = "attention",
     .name = "tiles",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = decline,
     .run = forward,
     .scratch_bytes = forward_scratch},
    {.op = "attention_grad",
     .name = "tiles",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = decline,
     .run = backward,
     .scratch_bytes = backward_scratch},
};

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE

extern const KernelList PERIGEE_CPU_KERNELS(attention);
const KernelList PERIGEE_CPU_KERNELS(attention) = kernel_list(PERIGEE_CPU_NAMESPACE::kKernels);

}  // namespace perigee
