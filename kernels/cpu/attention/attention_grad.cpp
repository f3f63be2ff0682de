// Gradients of attention by tiles: the scores of a block of queries and keys are computed again, from the sums that the forward pass kept,
// and what flows to them (Dao et al. 2022, FlashAttention). Keys and values of a tile are transposed once for all queries.
#include "kernels/cpu/attention/attention_tiles.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE::attention {
namespace {

constexpr int64_t kMostRows = 128;  // of a tile: queries, and keys
// Rows of a tile lie so far apart: at a power of two they would share few places of the nearest cache.
constexpr int64_t kPitch = kMostRows + kBlock;

// C [m, n] += A^T B, A with contiguous m.
inline void product_of_transposed(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                                  int64_t ldc) {
  gemm::multiply_by_rows<false>(
      {.m = m, .n = n, .k = k, .a = a, .a_stride = lda, .b = b, .ldb = ldb, .c = c, .ldc = ldc, .finish = {.accumulate = true}});
}

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
    scores_of(rows, width, a_.features, at(q, example_, query, head_), q.strides[1], scratch_ + room_.keys + span.first, kPitch,
              weights + span.first, kPitch);
    scores_of(rows, width, a_.values, at(d_out, example_, query, head_), d_out.strides[1], scratch_ + room_.values + span.first, kPitch,
              slopes + span.first, kPitch);
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
    const bool plain = here.plain(a_, span);
    for (int64_t j = span.first; j < span.end; j += kLanes) {
      const Floats weight = plain ? small_exp(load(weights + j) * scale - minus)
                                  : exp_below_zero(exponents<Alibi>(weights, bias, j, here, scale, slope, lanes) - minus);
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

const Kernel kKernels[] = {{.op = "attention_grad",
                            .name = "tiles",
                            .backend = Backend::cpu,
                            .isa = Isa::PERIGEE_ISA,
                            .decline = decline,
                            .run = backward,
                            .scratch_bytes = backward_scratch}};

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE::attention

extern const KernelList PERIGEE_CPU_KERNELS(attention_grad);
const KernelList PERIGEE_CPU_KERNELS(attention_grad) = kernel_list(PERIGEE_CPU_NAMESPACE::attention::kKernels);

}  // namespace perigee
