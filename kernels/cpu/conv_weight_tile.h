// Dense weight gradients: a tile of R segments x M window elements times NV vectors of output channels stays in registers while all
// output positions of some images go by.
#pragma once

#include "kernels/cpu/conv_simd.h"

#ifdef PERIGEE_CONV_SIMD
namespace perigee {
namespace {

struct WeightTileCall {
  const float* x;         // the first window's first element of the tile
  const int32_t* offset;  // of the R segments
  int64_t x_image, x_row, x_col;
  const float* dy;  // [image][row][column][channel], from the tile's first channel on
  int64_t dy_image, dy_row, dy_col;
  int64_t images, rows, columns;
  float* sums;         // (+)=, [segment][k][channel]
  int64_t segment, k;  // strides of sums
  int last;            // lanes of the last vector that are channels
};
using WeightTile = void (*)(const WeightTileCall&);

template <int R, int M, int NV>
void weight_tile(const WeightTileCall& t) {
  V acc[R][M][NV];
#pragma GCC unroll 3
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 3
      for (int v = 0; v < NV; ++v) acc[r][m][v] = v_load(t.sums + r * t.segment + m * t.k + v * kLanes);
  const int64_t step = t.x_col;
  for (int64_t n = 0; n < t.images; ++n)
    for (int64_t i = 0; i < t.rows; ++i) {
      const float* x[R];
#pragma GCC unroll 3
      for (int r = 0; r < R; ++r) x[r] = t.x + n * t.x_image + i * t.x_row + t.offset[r];
      const float* dy = t.dy + n * t.dy_image + i * t.dy_row;
      const float* const end = dy + t.columns * t.dy_col;
#pragma GCC unroll 1
      for (; dy != end; dy += t.dy_col) {
        V g[NV];
#pragma GCC unroll 3
        for (int v = 0; v + 1 < NV; ++v) g[v] = v_load(dy + v * kLanes);
        g[NV - 1] = v_load(dy + (NV - 1) * kLanes, t.last);
#pragma GCC unroll 3
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
          for (int m = 0; m < M; ++m) {
            const V b = v_set(x[r][m]);
#pragma GCC unroll 3
            for (int v = 0; v < NV; ++v) acc[r][m][v] = v_fma(b, g[v], acc[r][m][v]);
          }
          x[r] += step;
        }
      }
    }
#pragma GCC unroll 3
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 3
      for (int v = 0; v < NV; ++v) v_store(t.sums + r * t.segment + m * t.k + v * kLanes, acc[r][m][v]);
}

inline constexpr int kWeightRows = 3, kWeightElements = 16, kWeightVectors = 3;

template <int R, int M, int NV>
constexpr WeightTile weight_tile_or_null() {
  if constexpr (R * M * NV <= kAccumulators) return weight_tile<R, M, NV>;
  else return nullptr;
}
template <int NV, int R>
inline constexpr WeightTile kWeightTileRun[kWeightElements] = {
    weight_tile_or_null<R, 1, NV>(),  weight_tile_or_null<R, 2, NV>(),  weight_tile_or_null<R, 3, NV>(),  weight_tile_or_null<R, 4, NV>(),
    weight_tile_or_null<R, 5, NV>(),  weight_tile_or_null<R, 6, NV>(),  weight_tile_or_null<R, 7, NV>(),  weight_tile_or_null<R, 8, NV>(),
    weight_tile_or_null<R, 9, NV>(),  weight_tile_or_null<R, 10, NV>(), weight_tile_or_null<R, 11, NV>(), weight_tile_or_null<R, 12, NV>(),
    weight_tile_or_null<R, 13, NV>(), weight_tile_or_null<R, 14, NV>(), weight_tile_or_null<R, 15, NV>(), weight_tile_or_null<R, 16, NV>()};
inline constexpr const WeightTile* kWeightTiles[kWeightVectors][kWeightRows] = {
    {kWeightTileRun<1, 1>, kWeightTileRun<1, 2>, kWeightTileRun<1, 3>},
    {kWeightTileRun<2, 1>, kWeightTileRun<2, 2>, kWeightTileRun<2, 3>},
    {kWeightTileRun<3, 1>, kWeightTileRun<3, 2>, kWeightTileRun<3, 3>}};

}  // namespace
}  // namespace perigee
#endif
