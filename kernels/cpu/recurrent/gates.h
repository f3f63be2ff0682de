// The gates of the recurrent cells: one example at one step, forward and backward, vectors of units at a time (kernels/ops/recurrent.h has the
// formulas).
#pragma once

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vector_math.h"

namespace perigee {
namespace {

namespace math = PERIGEE_CPU_NAMESPACE;
using math::Floats;

// Whole vectors of units, then what is left of them: f(j, load, store).
template <class F>
PERIGEE_INLINE void for_units(int64_t units, F f) {
  int64_t j = 0;
  for (; j + math::kLanes <= units; j += math::kLanes)
    f(
        j, [](const float* x) __attribute__((always_inline)) { return math::load(x); },
        [](float* x, Floats v) __attribute__((always_inline)) { math::store(x, v); });
  if (j == units) return;
  const int64_t rest = units - j;
  f(
      j, [rest](const float* x) __attribute__((always_inline)) { return math::load_part(x, rest); },
      [rest](float* x, Floats v) __attribute__((always_inline)) { math::store_part(x, v, rest); });
}

// Rows of the next example lie a whole sequence further on: no cache knows that they will be wanted.
PERIGEE_INLINE void fetch_early(const float* row) { __builtin_prefetch(row); }

// `sums`: the product of the state; null: zeros. `next`: the row of x that is wanted after this one.
inline void lstm_gates(const float* x, const float* sums, int64_t units, const float* c_before, float* gates, float* c, float* h,
                       const float* next) {
  for_units(
      units, [&](int64_t j, auto load, auto store) __attribute__((always_inline)) {
        for (int64_t g = 0; g < 4; ++g) fetch_early(next + g * units + j);
        const auto z = [&](int64_t at) __attribute__((always_inline)) {
          return sums != nullptr ? load(x + at) + load(sums + at) : load(x + at);
        };
        const Floats input = math::sigmoid_of(z(j)), forget = math::sigmoid_of(z(units + j));
        const Floats candidate = math::tanh_of(z(2 * units + j)), output = math::sigmoid_of(z(3 * units + j));
        const Floats cell = (c_before != nullptr ? forget * load(c_before + j) : Floats{}) + input * candidate;
        store(gates + j, input);
        store(gates + units + j, forget);
        store(gates + 2 * units + j, candidate);
        store(gates + 3 * units + j, output);
        store(c + j, cell);
        store(h + j, output * math::tanh_of(cell));
      });
}

// `dh`, `dc` [units]: what flows from later steps; afterwards what flows to the step before, without the product. `dz` goes to `dx` as well.
// `next_gates`, `next_c`: the rows that are wanted after these.
inline void lstm_flow(const float* more_dh, const float* more_dc, const float* gates, const float* c, const float* c_before, int64_t units,
                      float* dh, float* dc, float* dz, float* dx, const float* next_gates, const float* next_c) {
  for_units(
      units, [&](int64_t j, auto load, auto store) __attribute__((always_inline)) {
        for (int64_t g = 0; g < 4; ++g) fetch_early(next_gates + g * units + j);
        fetch_early(next_c + j);
        const Floats input = load(gates + j), forget = load(gates + units + j), candidate = load(gates + 2 * units + j);
        const Floats output = load(gates + 3 * units + j), shown = math::tanh_of(load(c + j));
        Floats flow = load(dh + j), cell = load(dc + j);
        if (more_dh != nullptr) flow += load(more_dh + j);
        if (more_dc != nullptr) cell += load(more_dc + j);
        cell += flow * output * (1.0f - shown * shown);
        const auto put = [&](int64_t at, Floats v) __attribute__((always_inline)) { store(dz + at, v), store(dx + at, v); };
        put(j, cell * candidate * input * (1.0f - input));
        put(units + j, c_before != nullptr ? cell * load(c_before + j) * forget * (1.0f - forget) : Floats{});
        put(2 * units + j, cell * input * (1.0f - candidate * candidate));
        put(3 * units + j, flow * shown * output * (1.0f - output));
        store(dc + j, cell * forget);
        store(dh + j, Floats{});
      });
}

// The gates r and z, and where the reset acts after the product, v, from the sums of products.
inline void gru_gates(const float* x, const float* sums, const float* bias, const float* before, int64_t units, bool after, float* gates) {
  for_units(
      units, [&](int64_t j, auto load, auto store) __attribute__((always_inline)) {
        const Floats reset = math::sigmoid_of(load(x + j) + load(sums + j));
        store(gates + j, reset);
        store(gates + units + j, math::sigmoid_of(load(x + units + j) + load(sums + units + j)));
        Floats v = reset * load(before + j);
        if (after) v = bias != nullptr ? load(sums + 2 * units + j) + load(bias + j) : load(sums + 2 * units + j);
        store(gates + 3 * units + j, v);
      });
}

inline void gru_state(const float* x, const float* product, const float* before, int64_t units, bool after, float* gates, float* h) {
  for_units(
      units, [&](int64_t j, auto load, auto store) __attribute__((always_inline)) {
        const Floats inner = after ? load(gates + j) * load(gates + 3 * units + j) : load(product + j);
        const Floats next = math::tanh_of(load(x + 2 * units + j) + inner), update = load(gates + units + j);
        store(gates + 2 * units + j, next);
        store(h + j, next + update * (load(before + j) - next));
      });
}

// Into d (r z n v) what needs no further product, into `flow` what passes the step by z. `before` null: zeros.
inline void gru_flow(const float* more, const float* gates, const float* before, int64_t units, bool after, float* flow, float* d) {
  for_units(
      units, [&](int64_t j, auto load, auto store) __attribute__((always_inline)) {
        const Floats reset = load(gates + j), update = load(gates + units + j), next = load(gates + 2 * units + j);
        const Floats old = before != nullptr ? load(before + j) : Floats{}, all = load(flow + j) + load(more + j);
        const Floats dn = all * (1.0f - update) * (1.0f - next * next);
        store(d + units + j, all * (old - next) * update * (1.0f - update));
        store(d + 2 * units + j, dn);
        store(flow + j, all * update);
        if (!after) return;
        store(d + j, dn * load(gates + 3 * units + j) * reset * (1.0f - reset));
        store(d + 3 * units + j, dn * reset);
      });
}

// With reset = before, once dv is known.
inline void gru_flow_reset(const float* gates, const float* before, const float* dv, int64_t units, float* flow, float* d) {
  for_units(
      units, [&](int64_t j, auto load, auto store) __attribute__((always_inline)) {
        const Floats reset = load(gates + j), old = before != nullptr ? load(before + j) : Floats{}, through = load(dv + j);
        store(d + j, through * old * reset * (1.0f - reset));
        store(d + 3 * units + j, through);
        store(flow + j, load(flow + j) + through * reset);
      });
}

}  // namespace
}  // namespace perigee
