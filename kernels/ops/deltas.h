// deltas: in 0 x [N,C,T]  in 1 steps i64 [N], optional: so many of the T there are of each example
//         out 0 y of the shape of x: the slope of each row at each step, or its second derivative; 0 behind the steps that are there
// With `polynomial` it is that of the polynomial (a line for slopes, a parabola for second derivatives) through `reach` values on each side, and
// at the ends that of the outermost whole window (librosa; scipy's savgol_filter). Else, and where there are fewer than a window's values, the
// values at the ends are repeated, and a second derivative is the slope of slopes (HTK).
// Every result is a sum of values times delta_weight(); `adjoint` takes the same weights the other way round, which is the gradient.
#pragma once

#include <cstdint>

namespace perigee {

struct DeltasParams {
  int64_t reach = 2;
  int32_t order = 1;  // or 2
  bool polynomial = false, adjoint = false;
};

constexpr int64_t delta_clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

constexpr bool delta_repeats(const DeltasParams& p, int64_t there) { return !p.polynomial || there < 2 * p.reach + 1; }

// Value s counts so much in the slope at step t, those at the ends repeated.
constexpr double delta_slope_weight(int64_t reach, int64_t there, int64_t t, int64_t s) {
  double sum = 0, squares = 0;
  for (int64_t d = -reach; d <= reach; ++d) {
    squares += static_cast<double>(d * d);
    if (delta_clamp(t + d, 0, there - 1) == s) sum += static_cast<double>(d);
  }
  return sum / squares;
}

// Value s counts so much in the result at step t of `there`. It is 0 where they are more than 2 * reach apart.
constexpr double delta_weight(const DeltasParams& p, int64_t there, int64_t t, int64_t s) {
  if (delta_repeats(p, there)) {
    if (p.order == 1) return delta_slope_weight(p.reach, there, t, s);
    double sum = 0;
    for (int64_t u = t - p.reach; u <= t + p.reach; ++u)
      if (u >= 0 && u < there) sum += delta_slope_weight(p.reach, there, t, u) * delta_slope_weight(p.reach, there, u, s);
    return sum;
  }
  const int64_t d = s - delta_clamp(t, p.reach, there - 1 - p.reach);
  if (d < -p.reach || d > p.reach) return 0;
  double squares = 0, norm = 0;
  for (int64_t e = -p.reach; e <= p.reach; ++e) squares += static_cast<double>(e * e);
  if (p.order == 1) return static_cast<double>(d) / squares;
  const double mean = squares / static_cast<double>(2 * p.reach + 1);
  for (int64_t e = -p.reach; e <= p.reach; ++e) norm += .5 * (static_cast<double>(e * e) - mean) * (static_cast<double>(e * e) - mean);
  return (static_cast<double>(d * d) - mean) / norm;
}

// The result at step t of a row of `there` values.
template <class T>
constexpr double delta_at(const DeltasParams& p, const T* row, int64_t stride, int64_t there, int64_t t) {
  double sum = 0;
  const int64_t first = delta_clamp(t - 2 * p.reach, 0, there - 1), last = delta_clamp(t + 2 * p.reach, 0, there - 1);
  for (int64_t s = first; s <= last; ++s)
    sum += (p.adjoint ? delta_weight(p, there, s, t) : delta_weight(p, there, t, s)) * static_cast<double>(row[s * stride]);
  return sum;
}

}  // namespace perigee
