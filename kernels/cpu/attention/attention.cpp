// Attention by tiles: the scores of a few queries and at most kMostKeys keys stay in the nearest caches, and products run on the register
// tiles of gemm.h. Keys are transposed once for all queries. What causality or a window excludes is left out by blocks of kBlock queries;
// so is what lies in other sequences of the row. With more keys than a tile has, a running maximum and sum join the tiles (Milakov and
// Gimelshein 2018).
#include "kernels/cpu/attention/attention_tiles.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE::attention {
namespace {

constexpr int64_t kMostKeys = 384;  // of a tile
// Rows of a tile lie so far apart: at a power of two they would share few places of the nearest cache.
constexpr int64_t kKeyPitch = kMostKeys + kBlock;
constexpr float kLeast = -1e30f;

struct ForwardScratch {
  int64_t keys, bias, scores, draws, runs, total;  // first floats of each
  explicit ForwardScratch(const Problem& a) {
    keys = 0;
    bias = keys + (a.keys + kMostKeys - 1) / kMostKeys * a.features * pitch(a);
    scores = bias + round_up(a.keys);
    draws = scores + kBlock * kKeyPitch;
    runs = draws + (a.p.dropout > 0 ? kMostKeys : 0);
    total = runs + Runs::floats(a.p, a.keys);
  }
  // Rows of the transposed keys, which lie tile by tile: rows of all keys would each lie in a page of their own.
  static int64_t pitch(const Problem& a) { return std::min(round_up(a.keys) + kBlock, kKeyPitch); }
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
      const bool plain = row.plain(a, span);
      Floats top = all(kLeast);
      for (int64_t j = span.first; j < span.end; j += kLanes) {
        const Floats v = plain ? load(s + j) : exponents<Alibi>(s, bias, j, row, scale, slope, lanes);
        if (!plain) store(s + j, v);
        top = v > top ? v : top;
      }
      const float here = largest_lane(top) * (plain ? scale : 1), now = first ? here : std::max(most[r], here);
      Floats total = {};
      for (int64_t j = span.first; j < span.end; j += kLanes) {
        const Floats e = plain ? small_exp(load(s + j) * scale - now) : exp_below_zero(load(s + j) - now);
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
    scores_of(rows, span.end - span.first, a.features, at(a.x.q, example, query, head), a.x.q.strides[1],
              memory + key / kMostKeys * a.features * kKeyPitch + span.first, pitch, scores + span.first, kKeyPitch);
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
      for (int64_t key = 0; key < a.keys; key += kMostKeys)
        gemm::transpose_copy(at(a.x.k, example, key, group), a.x.k.strides[1], std::min(kMostKeys, a.keys - key), a.features,
                             scratch + room.keys + key / kMostKeys * a.features * kKeyPitch, ForwardScratch::pitch(a), true);
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

const Kernel kKernels[] = {{.op = "attention",
                            .name = "tiles",
                            .backend = Backend::cpu,
                            .isa = Isa::PERIGEE_ISA,
                            .decline = decline,
                            .run = forward,
                            .scratch_bytes = forward_scratch}};

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE::attention

extern const KernelList PERIGEE_CPU_KERNELS(attention);
const KernelList PERIGEE_CPU_KERNELS(attention) = kernel_list(PERIGEE_CPU_NAMESPACE::attention::kKernels);

}  // namespace perigee
