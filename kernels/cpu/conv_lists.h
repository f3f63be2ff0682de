// Lists of the output gradients that are alive behind a max-pool (or all of them where nothing was pooled): by place of the pooling
// window for the input gradient, by output channel for the weight gradient.
#pragma once

#include "kernels/cpu/conv_sparse.h"

#ifdef PERIGEE_CONV_SIMD
namespace perigee {
namespace {

struct PoolGrad {
  ConvParams p;
  ConvGeometry g;
  SparseBlocks blocks;
  int window;              // elements of a pooling window
  int32_t window_at[256];  // where each begins in the image, in floats
};

// dy, y, argmax as this file reads them; argmax is null where nothing was pooled.
struct Alive {
  const float* dy;
  const float* y;
  const uint8_t* argmax;
  bool relu;

  Alive at(int64_t offset) const { return {dy + offset, y + offset, argmax ? argmax + offset : nullptr, relu}; }
#ifdef __AVX512F__
  // Which of `lanes` channels from `o` on have a gradient.
  __mmask16 mask(int64_t o, int lanes, V* g) const {
    const auto valid = static_cast<__mmask16>((1u << lanes) - 1);
    *g = _mm512_maskz_loadu_ps(valid, dy + o);
    if (!relu) return valid;
    return _mm512_mask_cmp_ps_mask(valid, _mm512_maskz_loadu_ps(valid, y + o), _mm512_setzero_ps(), _CMP_GT_OQ);
  }
#endif
};

inline Alive alive(const KernelCall& call) {
  return {call.in[0].as<float>(), call.in[1].as<float>(), call.in[2].as<uint8_t>(), call.as<ConvParams>().relu != 0};
}

inline bool pool_grad(const KernelCall& call, const View& x, const View& w, PoolGrad* c) {
  c->p = call.as<ConvParams>();
  if (!conv_geometry(x, w, c->p, &c->g) || !sparse_blocks(c->g, &c->blocks)) return false;
  c->window = c->p.pool[0] * c->p.pool[1];
  if (c->window > 256 || c->g.n * c->g.hp * c->g.wp * c->g.c > int64_t{1} << 30) return false;
  for (int q = 0; q < c->window; ++q)
    c->window_at[q] = static_cast<int32_t>((q / c->p.pool[1] * c->p.stride[0] * c->g.wp + q % c->p.pool[1] * c->p.stride[1]) * c->g.c);
  return true;
}

// Where the windows of pooled row i, column j begin in a (padded) image.
inline int64_t window_corner(const PoolGrad& c, int64_t i, int64_t j) {
  return (i * c.p.pool[0] * c.p.stride[0] * c.g.wp + j * c.p.pool[1] * c.p.stride[1]) * c.g.c;
}

inline int64_t channel_floats(const PoolGrad& c) { return c.g.segments * c.blocks.padded; }

inline int64_t list_length(const ConvGeometry& g) { return g.o + kLanes; }

// The lists of one pooled pixel, one for each place in its window: entries point at their channel's weights.
inline void pixel_lists(const PoolGrad& c, const Alive& a, int64_t first, int64_t channels, Entry* lists, int* counts) {
  const int64_t stride = list_length(c.g);
  for (int q = 0; q < c.window; ++q) counts[q] = 0;
  const int floats = static_cast<int>(channel_floats(c));
#ifdef __AVX512F__
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int64_t o = first; o < first + channels; o += kLanes) {
    const int lanes = first + channels - o < kLanes ? static_cast<int>(first + channels - o) : kLanes;
    V g;
    const __mmask16 live = a.mask(o, lanes, &g);
    const __m512i place = a.argmax ? _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << lanes) - 1), a.argmax + o))
                                   : _mm512_setzero_si512();
    const __m512i at = _mm512_mullo_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(static_cast<int>(o))), _mm512_set1_epi32(floats));
    // Entries are pairs: gradients and places, interleaved after they were compressed.
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    for (int q = 0; q < c.window; ++q) {
      const __mmask16 here = _mm512_mask_cmpeq_epi32_mask(live, place, _mm512_set1_epi32(q));
      const __m512i values = _mm512_castps_si512(_mm512_maskz_compress_ps(here, g)), places = _mm512_maskz_compress_epi32(here, at);
      Entry* const to = lists + q * stride + counts[q];
      _mm512_storeu_si512(to, _mm512_permutex2var_epi32(values, low, places));
      _mm512_storeu_si512(to + 8, _mm512_permutex2var_epi32(values, high, places));
      counts[q] += __builtin_popcount(here);
    }
  }
#else
  for (int64_t o = first; o < first + channels; ++o) {
    if (a.relu && !(a.y[o] > 0)) continue;
    const int q = a.argmax ? a.argmax[o] : 0;
    if (q < c.window) lists[q * stride + counts[q]++] = {a.dy[o], static_cast<int32_t>(o) * floats};
  }
#endif
}

#ifdef __AVX512F__
// One vector of channels, appended to their lists without a branch: every lane writes behind its list, and the alive ones' lists grow.
inline void append_lanes(const Alive& a, int64_t o, int lanes, __m512i window_at, int32_t corner, int64_t list, Entry* lists,
                         int32_t* counts) {
  V g;
  const __mmask16 live = a.mask(o, lanes, &g);
  const __m512i q = a.argmax ? _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << lanes) - 1), a.argmax + o))
                             : _mm512_setzero_si512();
  const __m512i at = _mm512_add_epi32(_mm512_permutexvar_epi32(q, window_at), _mm512_set1_epi32(corner));
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  alignas(64) Entry entries[kLanes];
  _mm512_store_si512(entries, _mm512_permutex2var_epi32(_mm512_castps_si512(g), low, at));
  _mm512_store_si512(entries + 8, _mm512_permutex2var_epi32(_mm512_castps_si512(g), high, at));
  const __m512i known = _mm512_loadu_si512(counts + o);
  alignas(64) int32_t behind[kLanes];
  _mm512_store_si512(behind, known);
  Entry* to = lists + o * list;
  if (lanes == kLanes) {
#pragma GCC unroll 16
    for (int k = 0; k < kLanes; ++k, to += list) to[behind[k]] = entries[k];
  } else {
    for (int k = 0; k < lanes; ++k, to += list) to[behind[k]] = entries[k];
  }
  _mm512_storeu_si512(counts + o, _mm512_mask_add_epi32(known, live, known, _mm512_set1_epi32(1)));
}
#endif

// Appends one image's alive gradients to the lists of their channels; entries point at the window in the image.
inline void channel_lists(const PoolGrad& c, const Alive& image, int64_t origin, int64_t list, Entry* lists, int32_t* counts) {
#ifdef __AVX512F__
  const __m512i window_at =
      _mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << (c.window < kLanes ? c.window : kLanes)) - 1), c.window_at);
#endif
  for (int64_t i = 0; i < c.g.ph; ++i)
    for (int64_t j = 0; j < c.g.pw; ++j) {
      const Alive a = image.at((i * c.g.pw + j) * c.g.o);
      const auto corner = static_cast<int32_t>(origin + window_corner(c, i, j));
      for (int64_t o = 0; o < c.g.o; o += kLanes) {
        const int lanes = c.g.o - o < kLanes ? static_cast<int>(c.g.o - o) : kLanes;
#ifdef __AVX512F__
        if (c.window <= kLanes) {
          append_lanes(a, o, lanes, window_at, corner, list, lists, counts);
          continue;
        }
#endif
        for (int64_t channel = o; channel < o + lanes; ++channel)
          if (!a.relu || a.y[channel] > 0)
            lists[channel * list + counts[channel]++] = {a.dy[channel], corner + c.window_at[a.argmax ? a.argmax[channel] : 0]};
      }
    }
}

}  // namespace
}  // namespace perigee
#endif
