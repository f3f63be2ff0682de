// One step of attention: scores of kLanes steps at once, whose products are added up across lanes by a tree, then the mean of the values. Steps
// are taken as they lie in the ring, in two runs, so that nothing is copied.
#include "kernels/ops/attention_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/vector_math.h"
#include "kernels/ops/attention.h"
#include "kernels/registry.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {
namespace {

constexpr float kNone = -1e30f;

const char* decline(const KernelCall& call) {
  for (const View* x : {&call.in[0], &call.in[1], &call.out[0]}) {
    if (x->dtype != Dtype::f32) return "only f32";
    if (x->dims[3] > 1 && x->strides[3] != 1) return "a head's features must lie side by side";
  }
  return nullptr;
}

int64_t round_up(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Rows of features, `stride` apart; row 0 is `back` steps before the query, each next one step less.
struct Run {
  const float *keys, *values;
  int64_t stride, count, back;
};

Floats load_rest(const float* x, int64_t n) { return n >= kLanes ? load(x) : load_part(x, n); }

Floats product(const float* a, const float* b, int64_t features) {
  Floats sum = {};
  for (int64_t c = 0; c < features; c += kLanes) sum += load_rest(a + c, features - c) * load_rest(b + c, features - c);
  return sum;
}

// Neighbouring lanes of a, then those of b, added up.
template <int... Lane>
Floats add_neighbours(Floats a, Floats b, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, b, (2 * Lane)...) + __builtin_shufflevector(a, b, (2 * Lane + 1)...);
}

// Lane i of the result is the sum of vector i.
Floats sums_of(Floats (&v)[kLanes]) {
  for (int count = kLanes; count > 1; count /= 2)
    for (int i = 0; i < count / 2; ++i) v[i] = add_neighbours(v[2 * i], v[2 * i + 1], std::make_integer_sequence<int, kLanes>());
  return v[0];
}

// Scores of a run, of whole vectors: kNone behind its end. Returns the largest.
Floats score_run(const Run& run, const float* query, int64_t features, float scale, float slope, float* scores, Floats most) {
  const Floats lanes = __builtin_convertvector(lane_numbers(), Floats);
  for (int64_t j = 0; j < run.count; j += kLanes) {
    Floats products[kLanes];
    const int64_t rows = std::min<int64_t>(kLanes, run.count - j);
    for (int64_t i = 0; i < kLanes; ++i) products[i] = i < rows ? product(query, run.keys + (j + i) * run.stride, features) : Floats{};
    Floats v = sums_of(products) * scale - slope * (static_cast<float>(run.back - j) - lanes);
    if (rows < kLanes) v = first_or(v, rows, kNone);
    store(scores + j, v);
    most = larger(most, v);
  }
  return most;
}

void add_values(const Run& run, const float* weights, int64_t features, float* to) {
  for (int64_t c = 0; c < features; c += kLanes) {
    const int64_t n = std::min<int64_t>(kLanes, features - c);
    Floats even = load_rest(to + c, n), odd = {};
    int64_t j = 0;
    for (; j + 1 < run.count; j += 2) {
      even += load_rest(run.values + j * run.stride + c, n) * weights[j];
      odd += load_rest(run.values + (j + 1) * run.stride + c, n) * weights[j + 1];
    }
    if (j < run.count) even += load_rest(run.values + j * run.stride + c, n) * weights[j];
    even += odd;
    if (n == kLanes) store(to + c, even);
    else store_part(to + c, even, n);
  }
}

// `to` is zero. Room for the scores of all runs, each of whole vectors.
void look(const Run (&runs)[3], const float* query, int64_t features, float scale, float slope, float* scores, float* to) {
  Floats most = all(kNone);
  float* at = scores;
  for (const Run& run : runs) {
    most = score_run(run, query, features, scale, slope, at, most);
    at += round_up(run.count);
  }
  const float top = largest_lane(most);
  Floats sum = {};
  for (float* s = scores; s != at; s += kLanes) {
    const Floats e = exp_of(load(s) - top);
    store(s, e);
    sum += e;
  }
  at = scores;
  for (const Run& run : runs) {
    add_values(run, at, features, to);
    at += round_up(run.count);
  }
  const float inverse = 1 / sum_lanes(sum);
  for (int64_t c = 0; c < features; ++c) to[c] *= inverse;
}

void run(const KernelCall& call) {
  const auto& p = call.as<AttentionStepParams>();
  const View &x = call.in[0], &past = call.in[1], &before = call.in[2], &o = call.out[0];
  const int64_t heads = x.dims[2] - 2 * p.groups, slots = past.dims[1], features = x.dims[3], shared = heads / p.groups;
  for (int64_t n = 0; n < x.dims[0]; ++n) {
    const int64_t steps = before.as<int64_t>()[n * before.strides[0]], looked = steps_looked_at(steps, slots);
    // The step at hand takes this slot; behind it lie the oldest.
    const int64_t own = steps < 0 ? 0 : steps % slots, older = looked - std::min(looked, own);
    const float *now = x.as<float>() + n * x.strides[0], *ring = past.as<float>() + n * past.strides[0];
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t g = h / shared;
      const float *key = ring + g * past.strides[2], *value = ring + (p.groups + g) * past.strides[2];
      const int64_t behind = (own + 1) * past.strides[1];
      const Run runs[3] = {{now + (heads + g) * x.strides[2], now + (heads + p.groups + g) * x.strides[2], 0, 1, 0},
                           {key, value, past.strides[1], looked - older, own},
                           {older > 0 ? key + behind : key, older > 0 ? value + behind : value, past.strides[1], older, looked}};
      float* to = o.as<float>() + n * o.strides[0] + h * o.strides[2];
      std::fill(to, to + features, 0.0f);
      look(runs, now + h * x.strides[2], features, static_cast<float>(p.scale),
           p.alibi ? std::exp2(static_cast<float>(alibi_exponent(h, heads))) : 0.0f, static_cast<float*>(call.scratch), to);
    }
  }
}

size_t scratch_bytes(const KernelCall& call) { return static_cast<size_t>(round_up(call.in[1].dims[1]) + 3 * kLanes) * sizeof(float); }

const Kernel kKernels[] = {{.op = "attention_step",
                            .name = "ring",
                            .backend = Backend::cpu,
                            .isa = Isa::PERIGEE_ISA,
                            .decline = decline,
                            .run = run,
                            .scratch_bytes = scratch_bytes}};

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE

extern const KernelList PERIGEE_CPU_KERNELS(attention_step);
const KernelList PERIGEE_CPU_KERNELS(attention_step) = kernel_list(PERIGEE_CPU_NAMESPACE::kKernels);

}  // namespace perigee
