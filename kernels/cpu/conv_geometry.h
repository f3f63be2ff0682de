// The sizes of one convolution call, and its window as contiguous segments of a channels-last image.
#pragma once

#include "kernels/kernel.h"
#include "kernels/ops/conv.h"

namespace perigee {
namespace {

inline constexpr int kMaxSegments = 128;

struct ConvGeometry {
  int64_t n, c, h, w;           // input
  int64_t o, kh, kw;            // kernel
  int64_t oh, ow;               // output of the convolution itself
  int64_t ph, pw;               // after pooling
  int64_t group_in, group_out;  // channels of one group
  int64_t hp, wp;               // padded input
  bool padded;
  int segments, length;          // the window: so many runs of so many floats...
  int32_t offset[kMaxSegments];  // ...that begin here, in floats, seen from the window's corner in the padded image
};

// x: the image, w: the weight (both by dims only). False when the window has too many segments or sizes leave 32 bits.
inline bool conv_geometry(const View& x, const View& w, const ConvParams& p, ConvGeometry* g) {
  g->n = x.dims[0], g->c = x.dims[1], g->h = x.dims[2], g->w = x.dims[3];
  g->o = w.dims[0], g->kh = w.dims[2], g->kw = w.dims[3];
  g->hp = g->h + p.padding[0] + p.padding[1];
  g->wp = g->w + p.padding[2] + p.padding[3];
  g->padded = g->hp != g->h || g->wp != g->w;
  g->oh = (g->hp - p.dilation[0] * (g->kh - 1) - 1) / p.stride[0] + 1;
  g->ow = (g->wp - p.dilation[1] * (g->kw - 1) - 1) / p.stride[1] + 1;
  g->ph = g->oh / p.pool[0];
  g->pw = g->ow / p.pool[1];
  g->group_in = w.dims[1];
  g->group_out = g->o / p.groups;
  const int64_t limit = int64_t{1} << 28;
  if (g->hp * g->wp * g->c > limit || g->oh * g->ow * g->o > limit || g->o * g->group_in * g->kh * g->kw > limit) return false;
  const bool rows = p.dilation[1] == 1 && p.groups == 1;  // a row of the window is one run
  const int64_t segments = rows ? g->kh : g->kh * g->kw;
  if (segments > kMaxSegments) return false;
  g->segments = static_cast<int>(segments);
  g->length = static_cast<int>(rows ? g->kw * g->c : g->group_in);
  for (int64_t s = 0; s < segments; ++s) {
    const int64_t row = rows ? s : s / g->kw, column = rows ? 0 : s % g->kw;
    g->offset[s] = static_cast<int32_t>((row * p.dilation[0] * g->wp + column * p.dilation[1]) * g->c);
  }
  return true;
}

// Whether a segment is a row of the window (else a pixel).
inline bool row_segments(const ConvGeometry& g) { return g.segments == g.kh && g.length == g.kw * g.group_in; }

// Where the weight at `i` of its output channel's canonical order (c, row, column) is in the window's own order (segment, k).
inline int64_t window_index(const ConvGeometry& g, int64_t i) {
  const int64_t taps = g.kh * g.kw, c = i / taps, tap = i % taps;
  return tap * g.group_in + c;
}

}  // namespace
}  // namespace perigee
