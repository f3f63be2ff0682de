// Convolution of one padded image by tiles: how channels are cut into blocks and tails, and positions into tiles.
#pragma once

#include <limits>

#include "kernels/cpu/conv_geometry.h"
#include "kernels/cpu/conv_tile.h"
#include "kernels/cpu/conv_transpose.h"

#ifdef PERIGEE_CONV_SIMD
namespace perigee {
namespace {

// The output channels of one group: `vectors` full vectors (the last one perhaps with fewer channels), then `dots` channels as dot
// products or `quads` channels with four positions to a vector.
struct ChannelPlan {
  int vectors, last, dots, quads;
};

// x_col: from one position to the next, in floats.
inline ChannelPlan channel_plan(int64_t channels, int segments, int length, int64_t x_col) {
  const int full = static_cast<int>(channels / kLanes), rest = static_cast<int>(channels % kLanes);
  if (rest == 0) return {full, kLanes, 0, 0};
#ifdef __AVX512F__
  if (rest <= 4 && 3 * x_col + length <= kLanes) return {full, kLanes, 0, rest};
#else
  (void)x_col;
#endif
  // Multiplications a position: `rest` dot products with their sums over lanes, or one more vector for each element of the window.
  const double dots = rest * (segments * static_cast<double>((length + kLanes - 1) / kLanes) + 4);
  if (rest <= kDotChannels && dots < 0.8 * segments * length) return {full, kLanes, rest, 0};
  return {full + 1, rest, 0, 0};
}

// How many of the remaining vectors make the next block: threes and twos, a one only alone.
inline int next_block(int vectors) { return vectors <= 3 ? vectors : vectors % 2 ? 3 : 2; }

inline int64_t packed_group_floats(const ChannelPlan& plan, int segments, int length) {
  return static_cast<int64_t>(segments) *
         (static_cast<int64_t>(length) * (plan.vectors + (plan.quads > 0)) * kLanes + plan.dots * up(length, kLanes));
}

struct TileShape {
  int rows, columns;
};

// The tile that covers `rows` x `columns` positions in the least time for one step of the window.
inline TileShape tile_shape(int vectors, int64_t rows, int64_t columns) {
  TileShape best{1, 1};
  double best_cost = std::numeric_limits<double>::max();
  for (int r = 1; r <= kTileRows && r <= rows; ++r)
    for (int q = 1; q <= kTileColumns && q <= columns; ++q) {
      const int registers = r * q * vectors;
      if (registers > kAccumulators) continue;
      const int64_t across = (columns + q - 1) / q, down = (rows + r - 1) / r;
      // Two multiplications, two loads a cycle; sums are ready after four.
      double cost = registers > r * q + vectors ? registers : r * q + vectors;
      if (cost < 8) cost = 8;
      cost = (cost + 1.5) * static_cast<double>(across * down) / static_cast<double>(r * q);
      cost *= static_cast<double>(r * q);
      if (cost < best_cost) {
        best_cost = cost;
        best = {r, q};
      }
    }
  return best;
}

// Positions [0, rows) x [0, columns) of one group's output channels.
struct ForwardCall {
  const float* x;
  int64_t x_row, x_col;
  const int32_t* offset;
  int segments, length;
  const float* packed;
  const float* bias;  // channels + kLanes floats, or null
  float floor;
  float* y;
  int64_t y_row, y_col;
  int64_t rows, columns;
  TileShape shape[kTileVectors];  // for blocks of 1, 2, 3 vectors; set by choose_tiles

  void choose_tiles() {
    for (int v = 0; v < kTileVectors; ++v) shape[v] = tile_shape(v + 1, rows, columns);
  }
};

#ifdef __AVX512F__
inline void forward_quads(const ForwardCall& f, TileCall t, int channels, int64_t channel) {
  t.last = channels;
  const int64_t fours = (f.columns + 3) / 4, across = (fours + kQuadColumns - 1) / kQuadColumns;
  for (int64_t row = 0; row < f.rows; row += kQuadRows) {
    const int64_t rows = f.rows - row < kQuadRows ? f.rows - row : kQuadRows;
    for (int64_t j = 0; j < across; ++j) {
      const int64_t first = fours * j / across, end = fours * (j + 1) / across, column = 4 * first;
      t.x = f.x + row * f.x_row + column * f.x_col;
      t.y = f.y + row * f.y_row + column * f.y_col + channel;
      kQuadTiles[rows - 1][end - first - 1](t, static_cast<int>((4 * end < f.columns ? 4 * end : f.columns) - column));
    }
  }
}
#endif

inline void forward_positions(const ForwardCall& f, const ChannelPlan& plan) {
  TileCall t{.offset = f.offset, .segments = f.segments, .length = f.length, .floor = f.floor, .y_row = f.y_row, .y_col = f.y_col};
  t.x_row = f.x_row, t.x_col = f.x_col;
  const float* w = f.packed;
  int64_t channel = 0;
  for (int left = plan.vectors; left > 0;) {
    const int block = next_block(left);
    left -= block;
    const TileShape shape = f.shape[block - 1];
    t.w = w;
    t.bias = f.bias ? f.bias + channel : nullptr;
    t.last = left == 0 ? plan.last : kLanes;
    const int64_t down = (f.rows + shape.rows - 1) / shape.rows, across = (f.columns + shape.columns - 1) / shape.columns;
    for (int64_t i = 0; i < down; ++i) {
      const int64_t row = f.rows * i / down, rows = f.rows * (i + 1) / down - row;
      for (int64_t j = 0; j < across; ++j) {
        const int64_t column = f.columns * j / across, columns = f.columns * (j + 1) / across - column;
        t.x = f.x + row * f.x_row + column * f.x_col;
        t.y = f.y + row * f.y_row + column * f.y_col + channel;
        kTiles[block - 1][rows - 1][columns - 1](t);
      }
    }
    w += static_cast<int64_t>(f.segments) * f.length * block * kLanes;
    channel += block * kLanes;
  }
  t.w = w;
  t.bias = f.bias ? f.bias + channel : nullptr;
#ifdef __AVX512F__
  if (plan.quads) return forward_quads(f, t, plan.quads, channel);
#endif
  if (plan.dots == 0) return;
  for (int64_t row = 0; row < f.rows; ++row)
    for (int64_t column = 0; column < f.columns; column += kDotColumns) {
      const int64_t columns = f.columns - column < kDotColumns ? f.columns - column : kDotColumns;
      t.x = f.x + row * f.x_row + column * f.x_col;
      t.y = f.y + row * f.y_row + column * f.y_col + channel;
      kDotTiles[plan.dots - 1][columns - 1](t);
    }
}

// Packs one group's weights w[channels][channel_in][row][column] (canonical, contiguous) as forward_positions reads them.
inline float* pack_group(const ChannelPlan& plan, const ConvGeometry& g, const float* w, float* out) {
  const int64_t taps = g.kh * g.kw, per_channel = g.group_in * taps;
  int64_t channel = 0;
  for (int left = plan.vectors; left > 0;) {
    const int block = next_block(left);
    left -= block;
    const int64_t lanes = block * kLanes, channels = g.group_out - channel < lanes ? g.group_out - channel : lanes;
    if (channels < lanes) std::memset(out, 0, static_cast<size_t>(g.segments * g.length * lanes) * sizeof(float));
    transpose<false>(
        channels, per_channel, [&](int64_t o) { return w + (channel + o) * per_channel; },
        [&](int64_t i, int64_t o) { return out + window_index(g, i) * lanes + o; });
    out += g.segments * g.length * lanes;
    channel += lanes;
  }
  for (int64_t i = 0; plan.quads && i < per_channel; ++i, out += kLanes) {
    // Window order: k counts pixels, then channels.
    const int64_t tap = i / g.group_in, c = i % g.group_in;
    for (int lane = 0; lane < kLanes; ++lane)
      out[lane] = lane % 4 < plan.quads ? w[(channel + lane % 4) * per_channel + c * taps + tap] : 0.0f;
  }
  const int64_t padded = up(g.length, kLanes);
  for (int i = 0; i < plan.dots; ++i, out += g.segments * padded) {
    std::memset(out, 0, static_cast<size_t>(g.segments * padded) * sizeof(float));
    window_rows(g, w + (channel + i) * per_channel, padded, out);
  }
  return out;
}

// Copies image n of x (any strides) into a channels-last image with the borders around it, zero.
inline void pad_image(const View& x, int64_t n, const ConvGeometry& g, int64_t top, int64_t left, float* out) {
  const int64_t row = g.wp * g.c;
  const float* const in = x.as<float>() + n * x.strides[0];
  const bool packed_pixels = (x.strides[1] == 1 || g.c == 1) && (x.strides[3] == g.c || g.w == 1);
  std::memset(out, 0, static_cast<size_t>(top * row) * sizeof(float));
  for (int64_t i = 0; i < g.h; ++i) {
    float* const to = out + (top + i) * row;
    const float* const from = in + i * x.strides[2];
    std::memset(to, 0, static_cast<size_t>(left * g.c) * sizeof(float));
    if (packed_pixels) {
      std::memcpy(to + left * g.c, from, static_cast<size_t>(g.w * g.c) * sizeof(float));
    } else {
      for (int64_t j = 0; j < g.w; ++j)
        for (int64_t c = 0; c < g.c; ++c) to[(left + j) * g.c + c] = from[j * x.strides[3] + c * x.strides[1]];
    }
    std::memset(to + (left + g.w) * g.c, 0, static_cast<size_t>((g.wp - left - g.w) * g.c) * sizeof(float));
  }
  std::memset(out + (top + g.h) * row, 0, static_cast<size_t>((g.hp - top - g.h) * row) * sizeof(float));
}

inline bool needs_copy(const View& x, const ConvGeometry& g) { return g.padded || !x.channels_last(); }

}  // namespace
}  // namespace perigee
#endif
