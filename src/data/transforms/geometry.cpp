#include "src/data/transforms/geometry.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/picture_loops.h"
#include "src/core/host_isa.h"

namespace perigee {

Sampling sampling_of(const Config& config) {
  return {.bilinear = config.choice("interpolation") == "bilinear", .fill = static_cast<float>(config.number("fill"))};
}

void warp_image(const float* from, const ImageSize& size, const PlaneMap& map, const Sampling& sampling, float* to) {
  WarpCall call{.from = from,
                .channels = size.channels,
                .height = size.height,
                .width = size.width,
                .matrix = {},
                .bilinear = sampling.bilinear,
                .fill = sampling.fill,
                .to = to};
  for (size_t i = 0; i < map.size(); ++i) call.matrix[i] = static_cast<float>(map[i]);
  picture_loops(host_isa()).warp(call);
}

PlaneMap affine_map(const ImageSize& size, const AffineParts& parts, bool about_corner) {
  const double radian = std::numbers::pi / 180, turn = parts.degrees * radian, sx = parts.shear_x * radian, sy = parts.shear_y * radian;
  const double cx = about_corner ? -.5 : static_cast<double>(size.width - 1) / 2;
  const double cy = about_corner ? -.5 : static_cast<double>(size.height - 1) / 2;
  // The map of the picture is [a b; c d]; where a pixel comes from is its inverse, whose determinant is 1 before scaling.
  const double a = std::cos(turn - sy) / std::cos(sy), b = -std::cos(turn - sy) * std::tan(sx) / std::cos(sy) - std::sin(turn);
  const double c = std::sin(turn - sy) / std::cos(sy), d = -std::sin(turn - sy) * std::tan(sx) / std::cos(sy) + std::cos(turn);
  PlaneMap map = {d / parts.scale, -b / parts.scale, 0, -c / parts.scale, a / parts.scale, 0, 0, 0};
  map[2] = cx - map[0] * (cx + parts.right) - map[1] * (cy + parts.down);
  map[5] = cy - map[3] * (cx + parts.right) - map[4] * (cy + parts.down);
  return map;
}

// Eight equations: each corner of the result comes from one of the picture. The unknowns are solved for by elimination.
PlaneMap perspective_map(const ImageSize& size, const double (&corners)[4][2]) {
  const double w = static_cast<double>(size.width - 1), h = static_cast<double>(size.height - 1);
  const double from[4][2] = {{0, 0}, {w, 0}, {w, h}, {0, h}};
  double m[8][9] = {};
  for (int i = 0; i < 4; ++i) {
    const double x = corners[i][0], y = corners[i][1];
    for (int k = 0; k < 2; ++k) {
      const double row[9] = {k == 0 ? x : 0,  k == 0 ? y : 0,  k == 0 ? 1. : 0, k == 0 ? 0 : x, k == 0 ? 0 : y,
                             k == 0 ? 0 : 1., -from[i][k] * x, -from[i][k] * y, from[i][k]};
      std::copy(row, row + 9, m[2 * i + k]);
    }
  }
  for (int i = 0; i < 8; ++i) {
    int best = i;
    for (int r = i; r < 8; ++r)
      if (std::abs(m[r][i]) > std::abs(m[best][i])) best = r;
    std::swap_ranges(m[i], m[i] + 9, m[best]);
    if (std::abs(m[i][i]) < 1e-12) return kPlaneAsItIs;  // the corners lie on a line
    for (int r = 0; r < 8; ++r)
      if (const double factor = m[r][i] / m[i][i]; r != i)
        for (int c = i; c < 9; ++c) m[r][c] -= factor * m[i][c];
  }
  PlaneMap p;
  for (int i = 0; i < 8; ++i) p[static_cast<size_t>(i)] = m[i][8] / m[i][i];
  // Pixels are squares, and seen at their middles, half a pixel further: torchvision's functional.perspective.
  const double d = 1 + (p[6] + p[7]) / 2;
  if (d < 1e-6) return kPlaneAsItIs;
  PlaneMap map = {p[0] - p[6] / 2,
                  p[1] - p[7] / 2,
                  p[2] + (p[0] + p[1] - d) / 2,
                  p[3] - p[6] / 2,
                  p[4] - p[7] / 2,
                  p[5] + (p[3] + p[4] - d) / 2,
                  p[6],
                  p[7]};
  for (double& each : map) each /= d;
  return map;
}

}  // namespace perigee
