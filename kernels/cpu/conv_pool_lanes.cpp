// The weight gradient of conv2d_pool where the input has few channels (a network's first layer): lanes are output channels, each picks
// its own winner's input out of the pooling window by a permutation, so that no lists are made and dead gradients cost nothing but a
// lane. Channels that fill no vector are computed for four pixels at a time.
#include <type_traits>

#include "kernels/cpu/conv_forward.h"
#include "kernels/cpu/conv_pool_bias.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

#ifdef __AVX512F__
inline constexpr int kLaneRows = 5, kLaneLength = 13, kLaneSums = 27;

struct LanesCall {
  const float* x;                 // under the first pooled pixel's first window
  int64_t x_image, x_row, x_col;  // from one pooled pixel to the next
  int64_t window_row;             // from one row of a pooling window to the next
  const int32_t* offset;          // of the segments
  int reach;                      // floats of an input row that one pooling window's row may touch
  const float *dy, *y;            // from the first channel on
  const uint8_t* argmax;
  int64_t images, rows, columns, channels;  // pooled pixels, channels of a pixel
  int pixels, lanes;                        // of one vector: pixels (1 or 4) and channels of each
  bool relu;
  __m512i place;  // by argmax: lane of the window's element in its rows, 16 a row
  float* sums;    // (+)=, [segment][k][lane], lanes summed by the caller
};
using Lanes = void (*)(const LanesCall&);

// dy, argmax of the next vector: one pixel's channels, or four channels of each of four pixels.
struct Picked {
  V g;
  __m512i at;
};

inline Picked pick_channels(const LanesCall& t, int64_t pixel) {
  const auto valid = static_cast<__mmask16>((1u << t.lanes) - 1);
  const int64_t o = pixel * t.channels;
  const __mmask16 alive =
      t.relu ? _mm512_mask_cmp_ps_mask(valid, _mm512_maskz_loadu_ps(valid, t.y + o), _mm512_setzero_ps(), _CMP_GT_OQ) : valid;
  const __m512i q = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(valid, t.argmax + o));
  return {_mm512_maskz_loadu_ps(alive, t.dy + o), _mm512_permutexvar_epi32(q, t.place)};
}

inline Picked pick_pixels(const LanesCall& t, int64_t pixel, int count) {
  const auto valid = static_cast<__mmask8>((1u << t.lanes) - 1);
  __m512 g = _mm512_setzero_ps(), y = _mm512_setzero_ps();
  __m128i q = _mm_setzero_si128();
  const auto take = [&](int p, auto index) __attribute__((always_inline)) {
    if (p >= count) return;
    const int64_t o = (pixel + p) * t.channels;
    g = _mm512_insertf32x4(g, _mm_maskz_loadu_ps(valid, t.dy + o), decltype(index)::value);
    y = _mm512_insertf32x4(y, t.relu ? _mm_maskz_loadu_ps(valid, t.y + o) : _mm_set1_ps(1), decltype(index)::value);
    const __m128i bytes = _mm_maskz_loadu_epi8(valid, t.argmax + o);
    q = _mm_insert_epi32(q, _mm_cvtsi128_si32(bytes), decltype(index)::value);
  };
  take(0, std::integral_constant<int, 0>());
  take(1, std::integral_constant<int, 1>());
  take(2, std::integral_constant<int, 2>());
  take(3, std::integral_constant<int, 3>());
  const __m512i pixel_at =
      _mm512_mullo_epi32(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3), _mm512_set1_epi32(static_cast<int>(t.x_col)));
  g = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_GT_OQ), g);
  return {g, _mm512_add_epi32(_mm512_permutexvar_epi32(_mm512_cvtepu8_epi32(q), t.place), pixel_at)};
}

// S segments of L window elements; pooling windows of P rows.
template <int S, int L, int P>
void lanes(const LanesCall& t) {
  V acc[S][L];
#pragma GCC unroll 5
  for (int s = 0; s < S; ++s)
#pragma GCC unroll 13
    for (int k = 0; k < L; ++k) acc[s][k] = v_load(t.sums + (s * L + k) * kLanes);
  int64_t pixel = 0;
  for (int64_t n = 0; n < t.images; ++n)
    for (int64_t i = 0; i < t.rows; ++i) {
      const float* x = t.x + n * t.x_image + i * t.x_row;
      for (int64_t j = 0; j < t.columns; j += t.pixels) {
        const int count = t.columns - j < t.pixels ? static_cast<int>(t.columns - j) : t.pixels;
        const Picked picked = t.pixels == 1 ? pick_channels(t, pixel) : pick_pixels(t, pixel, count);
        const auto reach = static_cast<__mmask16>((1u << (t.reach + (count - 1) * t.x_col)) - 1);
#pragma GCC unroll 5
        for (int s = 0; s < S; ++s) {
          const float* const row = x + t.offset[s];
          const V first = _mm512_maskz_loadu_ps(reach, row);
          V second = first, third = first;
          if constexpr (P > 1) second = _mm512_maskz_loadu_ps(reach, row + t.window_row);
          if constexpr (P > 2) third = _mm512_maskz_loadu_ps(reach, row + 2 * t.window_row);
          __m512i at = picked.at;
          const __mmask16 in_third = P > 2 ? _mm512_cmpge_epi32_mask(at, _mm512_set1_epi32(32)) : 0;
#pragma GCC unroll 13
          for (int k = 0; k < L; ++k) {
            V v = P > 1 ? _mm512_permutex2var_ps(first, at, second) : _mm512_permutexvar_ps(at, first);
            if constexpr (P > 2) v = _mm512_mask_permutexvar_ps(v, in_third, at, third);
            acc[s][k] = v_fma(v, picked.g, acc[s][k]);
            if (k + 1 < L) at = _mm512_add_epi32(at, _mm512_set1_epi32(1));
          }
        }
        pixel += count;
        x += count * t.x_col;
      }
    }
#pragma GCC unroll 5
  for (int s = 0; s < S; ++s)
#pragma GCC unroll 13
    for (int k = 0; k < L; ++k) v_store(t.sums + (s * L + k) * kLanes, acc[s][k]);
}

template <int S, int L, int P>
constexpr Lanes lanes_or_null() {
  if constexpr (S * L <= kLaneSums) return lanes<S, L, P>;
  else return nullptr;
}
template <int P, int L>
inline constexpr Lanes kLanesRun[kLaneRows] = {lanes_or_null<1, L, P>(), lanes_or_null<2, L, P>(), lanes_or_null<3, L, P>(),
                                               lanes_or_null<4, L, P>(), lanes_or_null<5, L, P>()};
template <int P>
inline constexpr const Lanes* kLanesTable[kLaneLength] = {
    kLanesRun<P, 1>, kLanesRun<P, 2>, kLanesRun<P, 3>,  kLanesRun<P, 4>,  kLanesRun<P, 5>,  kLanesRun<P, 6>, kLanesRun<P, 7>,
    kLanesRun<P, 8>, kLanesRun<P, 9>, kLanesRun<P, 10>, kLanesRun<P, 11>, kLanesRun<P, 12>, kLanesRun<P, 13>};

struct Plan {
  ConvParams p;
  ConvGeometry g;
  int reach;         // floats of a row under one pooling window's row
  int64_t chunk;     // images at a time
  int64_t image;     // floats of an image in scratch; 0: the operand itself is read
  int64_t channels;  // of the sums
};

// False when the window's rows do not fit into vectors.
bool make_plan(const KernelCall& call, Plan* plan) {
  plan->p = call.as<ConvParams>();
  const ConvParams& p = plan->p;
  ConvGeometry& g = plan->g;
  if (p.groups != 1 || p.dilation[1] != 1 || !conv_geometry(call.in[3], call.out[0], p, &g)) return false;
  const int64_t reach = (p.pool[1] - 1) * p.stride[1] * g.c + g.length;
  if (p.pool[0] > 3 || p.pool[0] * p.pool[1] > kLanes || reach > kLanes || g.length > kLaneLength) return false;
  plan->reach = static_cast<int>(reach);
  const int64_t floats = up(g.hp * g.wp * g.c, kLanes);
  plan->chunk = 16 * 1024 / floats;
  plan->chunk = plan->chunk < 1 ? 1 : plan->chunk > g.n ? g.n : plan->chunk;
  plan->image = needs_copy(call.in[3], g) ? floats : 0;
  plan->channels = up(g.o, kLanes);
  return true;
}

const char* decline(const KernelCall& call) {
  if (call.in[0].dtype != Dtype::f32) return "f32 only";
  for (int i = 0; i < 3; ++i)
    if (!call.in[i].channels_last()) return "gradient, output and argmax must be channels-last";
  if (!call.out[0].contiguous()) return "the weight gradient must be contiguous";
  if (call.n_out > 1 && !call.out[1].contiguous()) return "the bias gradient must be contiguous";
  Plan plan;
  return make_plan(call, &plan) ? nullptr : "the rows of a pooling window must fit into vectors";
}

// Sums of one block of channels, [segment][k][lane], beside those of all channels, [segment][k][channel].
size_t scratch_bytes(const KernelCall& call) {
  Plan plan;
  make_plan(call, &plan);
  const int64_t window = static_cast<int64_t>(plan.g.segments) * plan.g.length;
  return static_cast<size_t>(window * (plan.channels + kLanes) + plan.chunk * plan.image) * sizeof(float);
}

// One block of channels over `images` images.
void run_block(const Plan& plan, LanesCall t, float* sums) {
  const ConvGeometry& g = plan.g;
  const int most = kLaneSums / g.length < kLaneRows ? kLaneSums / g.length : kLaneRows, down = (g.segments + most - 1) / most;
  for (int i = 0; i < down; ++i) {
    const int segment = g.segments * i / down, rows = g.segments * (i + 1) / down - segment;
    t.offset = g.offset + segment;
    t.sums = sums + static_cast<int64_t>(segment) * g.length * kLanes;
    const auto table = plan.p.pool[0] == 1 ? kLanesTable<1> : plan.p.pool[0] == 2 ? kLanesTable<2> : kLanesTable<3>;
    table[g.length - 1][rows - 1](t);
  }
}

// Adds a block's sums to the channels they belong to.
void collect(const Plan& plan, const float* block, bool four_pixels, int channels, float* sums) {
  for (int64_t i = 0; i < static_cast<int64_t>(plan.g.segments) * plan.g.length; ++i, block += kLanes, sums += plan.channels) {
    if (!four_pixels) {
      v_store(sums, v_add(v_load(sums), v_load(block)));
      continue;
    }
    const V v = v_load(block);
    const __m128 halves = _mm_add_ps(_mm_add_ps(_mm512_castps512_ps128(v), _mm512_extractf32x4_ps(v, 1)),
                                     _mm_add_ps(_mm512_extractf32x4_ps(v, 2), _mm512_extractf32x4_ps(v, 3)));
    const auto valid = static_cast<__mmask8>((1u << channels) - 1);
    _mm_mask_storeu_ps(sums, valid, _mm_add_ps(_mm_maskz_loadu_ps(valid, sums), halves));
  }
}

void grad_weight(const KernelCall& call) {
  Plan plan;
  make_plan(call, &plan);
  const ConvParams& p = plan.p;
  const ConvGeometry& g = plan.g;
  const View& x = call.in[3];
  const int64_t window = static_cast<int64_t>(g.segments) * g.length;
  auto* const sums = static_cast<float*>(call.scratch);
  float* const block = sums + window * plan.channels;
  float* const images = block + window * kLanes;
  std::memset(sums, 0, static_cast<size_t>(window * plan.channels) * sizeof(float));
  LanesCall t{.x_image = plan.image ? plan.image : x.strides[0], .x_row = p.pool[0] * p.stride[0] * g.wp * g.c};
  t.x_col = p.pool[1] * p.stride[1] * g.c;
  t.window_row = p.stride[0] * g.wp * g.c;
  t.reach = plan.reach;
  t.rows = g.ph, t.columns = g.pw, t.channels = g.o;
  t.relu = p.relu != 0;
  alignas(64) int32_t place[kLanes] = {};
  for (int q = 0; q < p.pool[0] * p.pool[1]; ++q)
    place[q] = static_cast<int32_t>(q / p.pool[1] * kLanes + q % p.pool[1] * p.stride[1] * g.c);
  t.place = _mm512_load_si512(place);
  for (int64_t n = 0; n < g.n; n += plan.chunk) {
    t.images = g.n - n < plan.chunk ? g.n - n : plan.chunk;
    for (int64_t k = 0; plan.image && k < t.images; ++k) pad_image(x, n + k, g, p.padding[0], p.padding[2], images + k * plan.image);
    t.x = plan.image ? images : x.as<float>() + n * x.strides[0];
    for (int64_t o = 0; o < g.o; o += kLanes) {
      const int64_t at = n * g.ph * g.pw * g.o + o;
      t.dy = call.in[0].as<float>() + at;
      t.y = call.in[1].as<float>() + at;
      t.argmax = call.in[2].as<uint8_t>() + at;
      t.lanes = g.o - o < kLanes ? static_cast<int>(g.o - o) : kLanes;
      const bool four = t.lanes <= 4 && plan.reach + 3 * t.x_col <= kLanes;
      t.pixels = four ? 4 : 1;
      std::memset(block, 0, static_cast<size_t>(window * kLanes) * sizeof(float));
      run_block(plan, t, block);
      collect(plan, block, four, t.lanes, sums + o);
    }
  }
  auto* const dw = call.out[0].as<float>();
  const auto from = [&](int64_t i) { return sums + window_index(g, i) * plan.channels; };
  const auto to = [&](int64_t o, int64_t i) { return dw + o * window + i; };
  if (call.accumulate) transpose<true>(window, g.o, from, to);
  else transpose<false>(window, g.o, from, to);
  pool_grad_bias(call);
}

const Kernel kKernels[] = {
    {.op = "conv2d_pool_grad_weight",
     .name = "cpu_conv2d_pool_grad_weight_lanes",
     .backend = Backend::cpu,
     .isa = Isa::avx512,
     .decline = decline,
     .run = grad_weight,
     .scratch_bytes = scratch_bytes,
     .accumulates = true},
};
#endif

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(conv_pool_lanes);
#ifdef __AVX512F__
const KernelList PERIGEE_CPU_KERNELS(conv_pool_lanes) = kernel_list(kKernels);
#else
const KernelList PERIGEE_CPU_KERNELS(conv_pool_lanes) = {};
#endif

}  // namespace perigee
