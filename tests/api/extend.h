// Ops and data of a program that embeds Perigee, for its tests.
#pragma once

#include <cmath>

#include "tests/api/support.h"

// y = x * sigmoid(beta x).
inline void register_swish() {
  const auto logistic = [](double v) { return 1 / (1 + std::exp(-v)); };
  pg::register_op({.name = "test.swish",
                   .options = {{"beta", 1.0}},
                   .forward =
                       [=](auto in, auto options, const perigee_array& y) {
                         int64_t n = 1;
                         for (int d = 0; d < y.rank; ++d) n *= y.shape[d];
                         const auto* x = static_cast<const float*>(in[0].data);
                         for (int64_t i = 0; i < n; ++i)
                           static_cast<float*>(y.data)[i] = static_cast<float>(x[i] * logistic(options[0] * x[i]));
                       },
                   .backward =
                       [=](auto in, auto options, const perigee_array& y, const perigee_array& dy, auto gradients) {
                         int64_t n = 1;
                         for (int d = 0; d < y.rank; ++d) n *= y.shape[d];
                         const auto *x = static_cast<const float*>(in[0].data), *g = static_cast<const float*>(dy.data);
                         for (int64_t i = 0; i < n; ++i) {
                           const double s = logistic(options[0] * x[i]);
                           static_cast<float*>(gradients[0].data)[i] = static_cast<float>(g[i] * (s + options[0] * x[i] * s * (1 - s)));
                         }
                       }});
}

// y[n][c] = x[n][c] * w[c], with w the same for all examples; refuses operands of other shapes.
inline void register_gate() {
  pg::register_op({.name = "test.gate",
                   .operands = 2,
                   .shared = 2,
                   .infer =
                       [](auto in, auto, perigee_array&) {
                         if (in[0].rank != 2 || in[1].rank != 1 || in[0].shape[1] != in[1].shape[0])
                           throw std::invalid_argument("a gate is as wide as what it gates");
                       },
                   .forward =
                       [](auto in, auto, const perigee_array& y) {
                         const int64_t width = y.shape[1];
                         for (int64_t i = 0; i < y.shape[0] * width; ++i)
                           static_cast<float*>(y.data)[i] =
                               static_cast<const float*>(in[0].data)[i] * static_cast<const float*>(in[1].data)[i % width];
                       },
                   .backward =
                       [](auto in, auto, const perigee_array& y, const perigee_array& dy, auto gradients) {
                         const int64_t width = y.shape[1];
                         const auto *x = static_cast<const float*>(in[0].data), *w = static_cast<const float*>(in[1].data),
                                    *g = static_cast<const float*>(dy.data);
                         auto *dx = static_cast<float*>(gradients[0].data), *dw = static_cast<float*>(gradients[1].data);
                         for (int64_t c = 0; c < width; ++c) dw[c] = 0;
                         for (int64_t i = 0; i < y.shape[0] * width; ++i) {
                           dx[i] = g[i] * w[i % width];
                           dw[i % width] += g[i] * x[i];
                         }
                       }});
}

// "quadrants": 1000 points, the same in every process.
inline void register_quadrants() {
  pg::register_source("quadrants", [] {
    static const Quadrants data(1000);
    return data.source();
  });
}

inline pg::options momentum_policy() {
  return pg::custom_averaging({{"every", 5}, {"momentum", 0.5}}, {{"velocity", 0}}, [](pg::outer& p) {
    p.set("velocity", p["momentum"] * p["velocity"] + p["delta"]);
    return p["global"] - p["velocity"];
  });
}
