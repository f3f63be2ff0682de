// conv2d and conv2d_pool forward, channels-last, by register tiles. The pooled op computes the rows of one pooling row into L1 and
// reduces them there; neither writes anything else of the convolution's own size.
#include <cmath>

#include "kernels/cpu/conv_forward.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

#ifdef PERIGEE_CONV_SIMD
constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : Isa::avx2;

const char* decline(const KernelCall& call) {
  for (int i = 0; i < call.n_in; ++i)
    if (call.in[i].data && call.in[i].dtype != Dtype::f32) return "f32 only";
  if (!call.out[0].channels_last()) return "the output must be channels-last";
  ConvGeometry g;
  if (!conv_geometry(call.in[0], call.in[1], call.as<ConvParams>(), &g)) return "the window has too many segments, or sizes are too large";
  if (g.group_in * g.group_out < 4 && g.c > 1) return "groups this narrow are left to other kernels";
  return nullptr;
}

int64_t bias_floats(const ConvGeometry& g) { return g.o + 4 * kLanes; }

ChannelPlan group_plan(const ConvParams& p, const ConvGeometry& g) {
  return channel_plan(g.group_out, g.segments, g.length, p.stride[1] * g.c);
}

int64_t packed_floats(const ConvParams& p, const ConvGeometry& g) {
  const ChannelPlan plan = group_plan(p, g);
  return p.groups * packed_group_floats(plan, g.segments, g.length) + bias_floats(g);
}

size_t packed_bytes(const KernelCall& call) {
  ConvGeometry g;
  conv_geometry(call.in[0], call.in[1], call.as<ConvParams>(), &g);
  return static_cast<size_t>(packed_floats(call.as<ConvParams>(), g) + stage_floats(call.in[1])) * sizeof(float);
}

void pack(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  const View& w = call.in[1];
  ConvGeometry g;
  conv_geometry(call.in[0], w, p, &g);
  const ChannelPlan plan = group_plan(p, g);
  float* out = static_cast<float*>(call.packed);
  const bool bias = call.n_in > 2 && call.in[2].data;
  for (int64_t o = 0; o < bias_floats(g); ++o) out[o] = bias && o < g.o ? call.in[2].as<float>()[o * call.in[2].strides[0]] : 0.0f;
  out += bias_floats(g);
  const float* const from = canonical(w, static_cast<float*>(call.packed) + packed_floats(p, g));
  const int64_t per_group = g.group_out * g.group_in * g.kh * g.kw;
  for (int64_t group = 0; group < p.groups; ++group) out = pack_group(plan, g, from + group * per_group, out);
}

int64_t padded_floats(const View& x, const ConvGeometry& g) { return needs_copy(x, g) ? up(g.hp * g.wp * g.c, kLanes) : 0; }

// Channels of the rows that wait to be pooled, rounded up so that whole vectors can be read.
int64_t row_channels(const ConvGeometry& g) { return up(g.o, kLanes); }

size_t conv_scratch(const KernelCall& call) {
  ConvGeometry g;
  conv_geometry(call.in[0], call.in[1], call.as<ConvParams>(), &g);
  return static_cast<size_t>(padded_floats(call.in[0], g)) * sizeof(float);
}

size_t pool_scratch(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  ConvGeometry g;
  conv_geometry(call.in[0], call.in[1], p, &g);
  return conv_scratch(call) + static_cast<size_t>(p.pool[0] * g.pw * p.pool[1] * row_channels(g)) * sizeof(float);
}

ForwardCall forward_call(const ConvParams& p, const ConvGeometry& g) {
  ForwardCall f{.offset = g.offset, .segments = g.segments, .length = g.length};
  f.x_row = p.stride[0] * g.wp * g.c;
  f.x_col = p.stride[1] * g.c;
  return f;
}

// The image that forward_positions reads: the operand itself, or a padded copy.
const float* image(const KernelCall& call, const ConvGeometry& g, int64_t n) {
  const View& x = call.in[0];
  if (!needs_copy(x, g)) return x.as<float>() + n * x.strides[0];
  const auto& p = call.as<ConvParams>();
  pad_image(x, n, g, p.padding[0], p.padding[2], static_cast<float*>(call.scratch));
  return static_cast<const float*>(call.scratch);
}

void conv2d(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  const View& y = call.out[0];
  ConvGeometry g;
  conv_geometry(call.in[0], call.in[1], p, &g);
  const ChannelPlan plan = group_plan(p, g);
  const float* const bias = static_cast<const float*>(call.packed);
  const int64_t group_floats = packed_group_floats(plan, g.segments, g.length);
  ForwardCall f = forward_call(p, g);
  f.floor = p.relu ? 0.0f : -std::numeric_limits<float>::infinity();
  f.y_row = g.ow * g.o;
  f.y_col = g.o;
  f.columns = g.ow;
  f.rows = g.oh;
  f.choose_tiles();
  for (int64_t n = 0; n < g.n; ++n) {
    const float* const x = image(call, g, n);
    for (int64_t group = 0; group < p.groups; ++group) {
      f.packed = bias + bias_floats(g) + group * group_floats;
      f.bias = bias + group * g.group_out;
      f.x = x + group * g.group_in;
      f.y = y.as<float>() + n * g.oh * f.y_row + group * g.group_out;
      forward_positions(f, plan);
    }
  }
}

#ifdef __AVX512F__
// The largest of each window of a pooling row and where it is, with bias and relu.
void pool_vector(const float* rows, int64_t row, int64_t col, const ConvParams& p, V bias, V floor, float* y, uint8_t* argmax, int lanes) {
  V best = v_load(rows);
  __m512i where = _mm512_setzero_si512();
  for (int r = 0; r < p.pool[0]; ++r)
    for (int c = r == 0; c < p.pool[1]; ++c) {
      const V v = v_load(rows + r * row + c * col);
      const __mmask16 larger = _mm512_cmp_ps_mask(v, best, _CMP_NLE_UQ);
      best = _mm512_mask_mov_ps(best, larger, v);
      where = _mm512_mask_mov_epi32(where, larger, _mm512_set1_epi32(r * p.pool[1] + c));
    }
  best = v_max(floor, v_add(best, bias));
  const __m128i bytes = _mm512_cvtepi32_epi8(where);
  if (lanes == kLanes) {
    v_store(y, best);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(argmax), bytes);
  } else {
    v_store(y, best, lanes);
    _mm_mask_storeu_epi8(argmax, static_cast<__mmask16>((1u << lanes) - 1), bytes);
  }
}

// Windows of 2x2 along one row, one vector of channels.
template <bool Whole>
void pool_row_2x2(const float* rows, int64_t row, int64_t col, int64_t count, V bias, V floor, float* y, uint8_t* argmax, int64_t next,
                  int lanes) {
  const __m128i one = _mm_set1_epi8(1), two = _mm_set1_epi8(2), three = _mm_set1_epi8(3);
  const auto valid = static_cast<__mmask16>((1u << lanes) - 1);
#pragma GCC unroll 2
  for (int64_t j = 0; j < count; ++j, rows += 2 * col, y += next, argmax += next) {
    const V a = v_load(rows), b = v_load(rows + col), c = v_load(rows + row), d = v_load(rows + row + col);
    const __mmask16 right = _mm512_cmp_ps_mask(b, a, _CMP_NLE_UQ), low_right = _mm512_cmp_ps_mask(d, c, _CMP_NLE_UQ);
    const V top = _mm512_mask_mov_ps(a, right, b), bottom = _mm512_mask_mov_ps(c, low_right, d);
    const __mmask16 lower = _mm512_cmp_ps_mask(bottom, top, _CMP_NLE_UQ);
    const V best = v_max(floor, v_add(_mm512_mask_mov_ps(top, lower, bottom), bias));
    const __m128i place = _mm_mask_mov_epi8(_mm_maskz_mov_epi8(right, one), lower, _mm_mask_mov_epi8(two, low_right, three));
    if constexpr (Whole) {
      v_store(y, best);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(argmax), place);
    } else {
      _mm512_mask_storeu_ps(y, valid, best);
      _mm_mask_storeu_epi8(argmax, valid, place);
    }
  }
}
// The places of a window, each in all lanes.
struct PlaceTable {
  uint8_t place[kLanes][kLanes];
};
constexpr PlaceTable place_table() {
  PlaceTable t{};
  for (int q = 0; q < kLanes; ++q)
    for (int lane = 0; lane < kLanes; ++lane) t.place[q][lane] = static_cast<uint8_t>(q);
  return t;
}
alignas(16) constexpr PlaceTable kPlaces = place_table();

// Windows of H x W, at most 16 elements, along one row, one vector of channels.
template <int H, int W, bool Whole>
void pool_row_fixed(const float* rows, int64_t row, int64_t col, int64_t count, V bias, V floor, float* y, uint8_t* argmax, int64_t next,
                    int lanes) {
  const auto valid = static_cast<__mmask16>((1u << lanes) - 1);
  for (int64_t j = 0; j < count; ++j, rows += W * col, y += next, argmax += next) {
    V best = v_load(rows);
    __m128i place = _mm_setzero_si128();
#pragma GCC unroll 16
    for (int q = 1; q < H * W; ++q) {
      const V v = v_load(rows + q / W * row + q % W * col);
      const __mmask16 larger = _mm512_cmp_ps_mask(v, best, _CMP_NLE_UQ);
      best = _mm512_mask_mov_ps(best, larger, v);
      place = _mm_mask_loadu_epi8(place, larger, kPlaces.place[q]);
    }
    best = v_max(floor, v_add(best, bias));
    if constexpr (Whole) {
      v_store(y, best);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(argmax), place);
    } else {
      _mm512_mask_storeu_ps(y, valid, best);
      _mm_mask_storeu_epi8(argmax, valid, place);
    }
  }
}

using PoolRow = void (*)(const float*, int64_t, int64_t, int64_t, V, V, float*, uint8_t*, int64_t, int);

// Null for windows that have no code of their own.
PoolRow pool_row_of(int height, int width, bool whole) {
  if (height == 2 && width == 2) return whole ? pool_row_2x2<true> : pool_row_2x2<false>;
  if (height == 3 && width == 3) return whole ? pool_row_fixed<3, 3, true> : pool_row_fixed<3, 3, false>;
  if (height == 4 && width == 4) return whole ? pool_row_fixed<4, 4, true> : pool_row_fixed<4, 4, false>;
  if (height == 1 && width == 2) return whole ? pool_row_fixed<1, 2, true> : pool_row_fixed<1, 2, false>;
  if (height == 1 && width == 3) return whole ? pool_row_fixed<1, 3, true> : pool_row_fixed<1, 3, false>;
  return nullptr;
}
#else
void pool_vector(const float* rows, int64_t row, int64_t col, const ConvParams& p, V bias, V floor, float* y, uint8_t* argmax, int lanes) {
  V best = v_load(rows);
  __m256i where = _mm256_setzero_si256();
  for (int r = 0; r < p.pool[0]; ++r)
    for (int c = r == 0; c < p.pool[1]; ++c) {
      const V v = v_load(rows + r * row + c * col);
      const V larger = _mm256_cmp_ps(v, best, _CMP_NLE_UQ);
      best = _mm256_blendv_ps(best, v, larger);
      where = _mm256_blendv_epi8(where, _mm256_set1_epi32(r * p.pool[1] + c), _mm256_castps_si256(larger));
    }
  v_store(y, v_max(floor, v_add(best, bias)), lanes);
  alignas(32) int32_t places[kLanes];
  _mm256_store_si256(reinterpret_cast<__m256i*>(places), where);
  for (int i = 0; i < lanes; ++i) argmax[i] = static_cast<uint8_t>(places[i]);
}
#endif

void pool_row(const float* rows, const ConvParams& p, const ConvGeometry& g, const float* bias, float floor, float* y, uint8_t* argmax) {
  const int64_t col = row_channels(g), row = g.pw * p.pool[1] * col;
  const V lowest = v_set(floor);
  for (int64_t o = 0; o < g.o; o += kLanes) {
    const int lanes = g.o - o < kLanes ? static_cast<int>(g.o - o) : kLanes;
    const V b = v_load(bias + o);
#ifdef __AVX512F__
    if (const PoolRow run = pool_row_of(p.pool[0], p.pool[1], lanes == kLanes)) {
      run(rows + o, row, col, g.pw, b, lowest, y + o, argmax + o, g.o, lanes);
      continue;
    }
#endif
    for (int64_t j = 0; j < g.pw; ++j)
      pool_vector(rows + j * p.pool[1] * col + o, row, col, p, b, lowest, y + j * g.o + o, argmax + j * g.o + o, lanes);
  }
}

void conv2d_pool(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  ConvGeometry g;
  conv_geometry(call.in[0], call.in[1], p, &g);
  const ChannelPlan plan = group_plan(p, g);
  const float* const bias = static_cast<const float*>(call.packed);
  const int64_t group_floats = packed_group_floats(plan, g.segments, g.length);
  float* const rows = static_cast<float*>(call.scratch) + padded_floats(call.in[0], g);
  const float floor = p.relu ? 0.0f : -std::numeric_limits<float>::infinity();
  ForwardCall f = forward_call(p, g);
  f.floor = -std::numeric_limits<float>::infinity();
  f.bias = nullptr;
  f.y_col = row_channels(g);
  f.columns = g.pw * p.pool[1];
  f.y_row = f.columns * f.y_col;
  f.rows = p.pool[0];
  f.choose_tiles();
  for (int64_t n = 0; n < g.n; ++n) {
    const float* const x = image(call, g, n);
    for (int64_t i = 0; i < g.ph; ++i) {
      for (int64_t group = 0; group < p.groups; ++group) {
        f.packed = bias + bias_floats(g) + group * group_floats;
        f.x = x + i * p.pool[0] * f.x_row + group * g.group_in;
        f.y = rows + group * g.group_out;
        forward_positions(f, plan);
      }
      const int64_t out = (n * g.ph + i) * g.pw * g.o;
      pool_row(rows, p, g, bias, floor, call.out[0].as<float>() + out, call.out[1].as<uint8_t>() + out);
    }
  }
}

const char* decline_pool(const KernelCall& call) {
  if (!call.out[1].channels_last()) return "argmax must be channels-last";
  return decline(call);
}

const Kernel kKernels[] = {
    {.op = "conv2d",
     .name = "cpu_conv2d_tiles",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline,
     .run = conv2d,
     .scratch_bytes = conv_scratch,
     .packed_bytes = packed_bytes,
     .pack = pack},
    {.op = "conv2d_pool",
     .name = "cpu_conv2d_pool_tiles",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_pool,
     .run = conv2d_pool,
     .scratch_bytes = pool_scratch,
     .packed_bytes = packed_bytes,
     .pack = pack},
};
#endif

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(conv);
#ifdef PERIGEE_CONV_SIMD
const KernelList PERIGEE_CPU_KERNELS(conv) = kernel_list(kKernels);
#else
const KernelList PERIGEE_CPU_KERNELS(conv) = {};
#endif

}  // namespace perigee
