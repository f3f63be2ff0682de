// Recurrent cells. The product of the state with the recurrent weights is made for all examples at once in each step, out of weights packed
// in panels, so that the second-level cache gives them in order; the sums, one step's alone, stay in the caches until the gates are made.
// The state that a product reads is copied side by side: rows of the results lie a sequence apart, which would put them all in a few lines of
// the first cache.
#include "kernels/ops/recurrent.h"

#include <cstring>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/recurrent/gates.h"
#include "kernels/cpu/recurrent/rows.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

namespace math = PERIGEE_CPU_NAMESPACE;
using gemm::Panels;

// Weights in panels.

size_t packed_floats(int64_t k, int64_t columns) { return static_cast<size_t>((columns + kLanes - 1) / kLanes * kLanes * k); }

// Columns [first, first + columns) of r as they are: b[k][j] = r[k, first + j].
void pack_columns(const View& r, int64_t first, int64_t columns, float* to) {
  const Panels panels(columns, gemm::kPanelVectors);
  for (int64_t q = 0; q < panels.count; ++q) {
    const int64_t from = panels.first(q), width = panels.width(q) * kLanes, count = width - kLanes + panels.last(q);
    float* row = to + from * r.dims[0];
    for (int64_t k = 0; k < r.dims[0]; ++k, row += width) {
      std::memcpy(row, r.as<float>() + k * r.strides[0] + first + from, static_cast<size_t>(count) * sizeof(float));
      for (int64_t j = count; j < width; ++j) row[j] = 0;
    }
  }
}

// The same transposed: b[j][k] = r[k, first + j].
void pack_transposed(const View& r, int64_t first, int64_t columns, float* to) {
  const Panels panels(r.dims[0], gemm::kPanelVectors);
  for (int64_t q = 0; q < panels.count; ++q) {
    const int64_t from = panels.first(q), width = panels.width(q) * kLanes;
    gemm::transpose_copy(r.as<float>() + from * r.strides[0] + first, r.strides[0], width - kLanes + panels.last(q), columns,
                         to + from * columns, width, true);
  }
}

// c[n, columns] (+)= a[n, k] b
void multiply(int64_t n, int64_t columns, int64_t k, const float* a, int64_t a_stride, const float* b, float* c, int64_t ldc,
              bool accumulate) {
  gemm::multiply<true>(
      {.m = n, .n = columns, .k = k, .a = a, .a_stride = a_stride, .b = b, .c = c, .ldc = ldc, .finish = {.accumulate = accumulate}}, true);
}

// --- lstm ---

size_t lstm_packed(const KernelCall& call) { return packed_floats(call.in[1].dims[0], call.in[1].dims[1]) * sizeof(float); }
void lstm_pack(const KernelCall& call) { pack_columns(call.in[1], 0, call.in[1].dims[1], static_cast<float*>(call.packed)); }

size_t lstm_scratch(const KernelCall& call) {
  const Sizes s(call, call.out[0]);
  return static_cast<size_t>(s.n * (Sizes::pitch(4 * s.h) + Sizes::pitch(s.h))) * sizeof(float);
}

void run_lstm(const KernelCall& call) {
  const Sizes s(call, call.out[0]);
  const Rows x(call.in[0]), h0(optional(call, 2)), c0(optional(call, 3)), h(call.out[0]), c(call.out[1]), gates(call.out[2]);
  const Mask mask(optional(call, 4));
  const int64_t z_pitch = Sizes::pitch(4 * s.h), state_pitch = Sizes::pitch(s.h);
  float *const z = static_cast<float*>(call.scratch), *const state = z + s.n * z_pitch;
  for (int64_t n = 0; n < s.n; ++n) copy_row(state + n * state_pitch, h0(n), s.h);
  for (int64_t i = 0; i < s.t; ++i) {
    const int64_t t = s.at(i);
    const bool product = i > 0 || h0.data != nullptr;
    if (product) multiply(s.n, 4 * s.h, s.h, state, state_pitch, static_cast<const float*>(call.packed), z, z_pitch, false);
    for (int64_t n = 0; n < s.n; ++n) {
      const float* const before = i > 0 ? c(n, s.at(i - 1)) : c0(n);
      lstm_gates(x(n, t), product ? z + n * z_pitch : nullptr, s.h, before, gates(n, t), c(n, t), h(n, t), x(s.next(n), t));
      if (mask.counts(n, t)) {
        copy_row(state + n * state_pitch, h(n, t), s.h);
      } else {
        copy_row(h(n, t), state + n * state_pitch, s.h);
        copy_row(c(n, t), before, s.h);
      }
    }
  }
}

size_t lstm_grad_packed(const KernelCall& call) { return packed_floats(call.in[2].dims[1], call.in[2].dims[0]) * sizeof(float); }
void lstm_grad_pack(const KernelCall& call) { pack_transposed(call.in[2], 0, call.in[2].dims[1], static_cast<float*>(call.packed)); }

size_t lstm_grad_scratch(const KernelCall& call) {
  const Sizes s(call, call.in[3]);
  return static_cast<size_t>(s.n * (Sizes::pitch(4 * s.h) + 2 * Sizes::pitch(s.h))) * sizeof(float);
}

void add_row(float* to, const float* from, int64_t count) {
  if (from == nullptr) return;
  for (int64_t j = 0; j < count; ++j) to[j] += from[j];
}

void run_lstm_grad(const KernelCall& call) {
  const Sizes s(call, call.in[3]);
  const Rows dh(call.in[0]), dc(call.in[1]), c(call.in[3]), gates(call.in[4]), c0(optional(call, 5)), dx(call.out[0]), dh0(call.out[1]);
  const Rows dc0(call.out[2]);
  const Mask mask(optional(call, 6));
  const int64_t z_pitch = Sizes::pitch(4 * s.h), state_pitch = Sizes::pitch(s.h);
  float *const dz = static_cast<float*>(call.scratch), *const flow = dz + s.n * z_pitch, *const cell = flow + s.n * state_pitch;
  std::memset(flow, 0, static_cast<size_t>(2 * s.n * state_pitch) * sizeof(float));
  for (int64_t i = s.t; i-- > 0;) {
    const int64_t t = s.at(i);
    for (int64_t n = 0; n < s.n; ++n) {
      float *const own_flow = flow + n * state_pitch, *const own_cell = cell + n * state_pitch, *const own = dz + n * z_pitch;
      if (mask.counts(n, t)) {
        const int64_t next = s.next(n), earlier = i > 0 ? s.at(i - 1) : t;
        lstm_flow(dh(n, t), dc(n, t), gates(n, t), c(n, t), i > 0 ? c(n, earlier) : c0(n), s.h, own_flow, own_cell, own, dx(n, t),
                  gates(next, t), c(next, earlier));
      } else {
        add_row(own_flow, dh(n, t), s.h);
        add_row(own_cell, dc(n, t), s.h);
        copy_row(own, nullptr, 4 * s.h);
        copy_row(dx(n, t), nullptr, 4 * s.h);
      }
    }
    multiply(s.n, s.h, 4 * s.h, dz, z_pitch, static_cast<const float*>(call.packed), flow, state_pitch, true);
  }
  for (int64_t n = 0; n < s.n; ++n) {
    copy_row(dh0(n), flow + n * state_pitch, s.h);
    copy_row(dc0(n), cell + n * state_pitch, s.h);
  }
}

// --- gru: with reset = before the product of n is one of its own ---

bool resets_after(const KernelCall& call) { return call.as<RecurrentParams>().reset == RecurrentReset::after; }

size_t gru_packed(const KernelCall& call) {
  const int64_t h = call.in[1].dims[0];
  return (resets_after(call) ? packed_floats(h, 3 * h) : packed_floats(h, 2 * h) + packed_floats(h, h)) * sizeof(float);
}

void gru_pack(const KernelCall& call) {
  const int64_t h = call.in[1].dims[0];
  float* const to = static_cast<float*>(call.packed);
  pack_columns(call.in[1], 0, resets_after(call) ? 3 * h : 2 * h, to);
  if (!resets_after(call)) pack_columns(call.in[1], 2 * h, h, to + packed_floats(h, 2 * h));
}

size_t gru_scratch(const KernelCall& call) {
  const Sizes s(call, call.out[0]);
  return static_cast<size_t>(s.n * (Sizes::pitch(3 * s.h) + 2 * Sizes::pitch(s.h))) * sizeof(float);
}

void run_gru(const KernelCall& call) {
  const Sizes s(call, call.out[0]);
  const Rows x(call.in[0]), h0(optional(call, 3)), h(call.out[0]), gates(call.out[1]);
  const float* const bias = optional(call, 2).as<float>();
  const Mask mask(optional(call, 4));
  const bool after = resets_after(call);
  const int64_t sums_pitch = Sizes::pitch(3 * s.h), pitch = Sizes::pitch(s.h), width = after ? 3 * s.h : 2 * s.h;
  float *const sums = static_cast<float*>(call.scratch), *const state = sums + s.n * sums_pitch, *const v = state + s.n * pitch;
  const float* const packed = static_cast<const float*>(call.packed);
  for (int64_t n = 0; n < s.n; ++n) copy_row(state + n * pitch, h0(n), s.h);
  for (int64_t i = 0; i < s.t; ++i) {
    const int64_t t = s.at(i);
    multiply(s.n, width, s.h, state, pitch, packed, sums, sums_pitch, false);
    for (int64_t n = 0; n < s.n; ++n) {
      gru_gates(x(n, t), sums + n * sums_pitch, bias, state + n * pitch, s.h, after, gates(n, t));
      if (!after) copy_row(v + n * pitch, gates(n, t) + 3 * s.h, s.h);
    }
    if (!after) multiply(s.n, s.h, s.h, v, pitch, packed + packed_floats(s.h, 2 * s.h), sums, sums_pitch, false);
    for (int64_t n = 0; n < s.n; ++n) {
      float* const own = state + n * pitch;
      gru_state(x(n, t), sums + n * sums_pitch, own, s.h, after, gates(n, t), h(n, t));
      if (mask.counts(n, t)) copy_row(own, h(n, t), s.h);
      else copy_row(h(n, t), own, s.h);
    }
  }
}

size_t gru_grad_packed(const KernelCall& call) {
  const int64_t h = call.in[1].dims[0];
  return (resets_after(call) ? packed_floats(3 * h, h) : packed_floats(2 * h, h) + packed_floats(h, h)) * sizeof(float);
}

void gru_grad_pack(const KernelCall& call) {
  const int64_t h = call.in[1].dims[0];
  float* const to = static_cast<float*>(call.packed);
  pack_transposed(call.in[1], 0, resets_after(call) ? 3 * h : 2 * h, to);
  if (!resets_after(call)) pack_transposed(call.in[1], 2 * h, h, to + packed_floats(2 * h, h));
}

size_t gru_grad_scratch(const KernelCall& call) {
  const Sizes s(call, call.in[2]);
  return static_cast<size_t>(s.n * (Sizes::pitch(3 * s.h) + 2 * Sizes::pitch(s.h))) * sizeof(float);
}

void run_gru_grad(const KernelCall& call) {
  const Sizes s(call, call.in[2]);
  const Rows dh(call.in[0]), h(call.in[2]), gates(call.in[3]), h0(optional(call, 4)), d(call.out[0]), dh0(call.out[1]);
  const Mask mask(optional(call, 5));
  const bool after = resets_after(call);
  const int64_t sums_pitch = Sizes::pitch(3 * s.h), pitch = Sizes::pitch(s.h), units = s.h;
  float *const side = static_cast<float*>(call.scratch), *const flow = side + s.n * sums_pitch, *const dv = flow + s.n * pitch;
  const float* const packed = static_cast<const float*>(call.packed);
  std::memset(flow, 0, static_cast<size_t>(s.n * pitch) * sizeof(float));
  for (int64_t i = s.t; i-- > 0;) {
    const int64_t t = s.at(i);
    const auto before = [&](int64_t n) { return i > 0 ? h(n, s.at(i - 1)) : h0(n); };
    for (int64_t n = 0; n < s.n; ++n) {
      float *const own = d(n, t), *const copy = side + n * sums_pitch;
      if (mask.counts(n, t)) {
        gru_flow(dh(n, t), gates(n, t), before(n), units, after, flow + n * pitch, own);
      } else {
        add_row(flow + n * pitch, dh(n, t), units);
        copy_row(own, nullptr, 4 * units);
      }
      copy_row(copy, after ? own : own + 2 * units, after ? 2 * units : units);
      if (after) copy_row(copy + 2 * units, own + 3 * units, units);
    }
    if (after) {
      multiply(s.n, units, 3 * units, side, sums_pitch, packed, flow, pitch, true);
      continue;
    }
    multiply(s.n, units, units, side, sums_pitch, packed + packed_floats(2 * units, units), dv, pitch, false);
    for (int64_t n = 0; n < s.n; ++n) {
      float* const own = d(n, t);
      if (mask.counts(n, t)) gru_flow_reset(gates(n, t), before(n), dv + n * pitch, units, flow + n * pitch, own);
      copy_row(side + n * sums_pitch, own, 2 * units);
    }
    multiply(s.n, units, 2 * units, side, sums_pitch, packed, flow, pitch, true);
  }
  for (int64_t n = 0; n < s.n; ++n) copy_row(dh0(n), flow + n * pitch, units);
}

// --- rnn ---

bool is_relu(const KernelCall& call) { return call.as<RecurrentParams>().activation == RecurrentActivation::relu; }

size_t rnn_scratch(const KernelCall& call) {
  const Sizes s(call, call.out[0]);
  return static_cast<size_t>(2 * s.n * Sizes::pitch(s.h)) * sizeof(float);
}

void run_rnn(const KernelCall& call) {
  const Sizes s(call, call.out[0]);
  const Rows x(call.in[0]), h0(optional(call, 2)), h(call.out[0]);
  const Mask mask(optional(call, 3));
  const bool relu = is_relu(call);
  const int64_t pitch = Sizes::pitch(s.h);
  float *const sums = static_cast<float*>(call.scratch), *const state = sums + s.n * pitch;
  for (int64_t n = 0; n < s.n; ++n) copy_row(state + n * pitch, h0(n), s.h);
  for (int64_t i = 0; i < s.t; ++i) {
    const int64_t t = s.at(i);
    multiply(s.n, s.h, s.h, state, pitch, static_cast<const float*>(call.packed), sums, pitch, false);
    for (int64_t n = 0; n < s.n; ++n) {
      float *const own = state + n * pitch, *const to = h(n, t);
      const float *const from = x(n, t), *const product = sums + n * pitch;
      if (mask.counts(n, t))
        for_units(
            s.h, [&](int64_t j, auto load, auto store) __attribute__((always_inline)) {
              const Floats sum = load(from + j) + load(product + j), next = relu ? math::larger(sum, Floats{}) : math::tanh_of(sum);
              store(own + j, next);
            });
      copy_row(to, own, s.h);
    }
  }
}

size_t rnn_grad_packed(const KernelCall& call) { return packed_floats(call.in[1].dims[1], call.in[1].dims[0]) * sizeof(float); }
void rnn_grad_pack(const KernelCall& call) { pack_transposed(call.in[1], 0, call.in[1].dims[1], static_cast<float*>(call.packed)); }

void run_rnn_grad(const KernelCall& call) {
  const Sizes s(call, call.out[0]);
  const Rows dh(call.in[0]), h(call.in[2]), dx(call.out[0]), dh0(call.out[1]);
  const Mask mask(optional(call, 3));
  const bool relu = is_relu(call);
  const int64_t pitch = Sizes::pitch(s.h);
  float *const dz = static_cast<float*>(call.scratch), *const flow = dz + s.n * pitch;
  std::memset(flow, 0, static_cast<size_t>(s.n * pitch) * sizeof(float));
  for (int64_t i = s.t; i-- > 0;) {
    const int64_t t = s.at(i);
    for (int64_t n = 0; n < s.n; ++n) {
      float *const own = flow + n * pitch, *const side = dz + n * pitch, *const to = dx(n, t);
      const float *const more = dh(n, t), *const y = h(n, t);
      if (mask.counts(n, t)) {
        for_units(
            s.h, [&](int64_t j, auto load, auto store) __attribute__((always_inline)) {
              const Floats all = load(own + j) + load(more + j), value = load(y + j);
              store(side + j, relu ? math::choose(value > 0.0f, all, Floats{}) : all * (1.0f - value * value));
              store(own + j, Floats{});
            });
      } else {
        add_row(own, more, s.h);
        copy_row(side, nullptr, s.h);
      }
      copy_row(to, side, s.h);
    }
    multiply(s.n, s.h, s.h, dz, pitch, static_cast<const float*>(call.packed), flow, pitch, true);
  }
  for (int64_t n = 0; n < s.n; ++n) copy_row(dh0(n), flow + n * pitch, s.h);
}

template <int kMask, auto Run, auto Scratch, auto PackedBytes, auto Pack>
constexpr Kernel steps_kernel(const char* op) {
  return {.op = op,
          .name = "steps",
          .backend = Backend::cpu,
          .isa = Isa::PERIGEE_ISA,
          .decline = decline<kMask>,
          .run = Run,
          .scratch_bytes = Scratch,
          .packed_bytes = PackedBytes,
          .pack = Pack};
}

const Kernel kKernels[] = {
    steps_kernel<4, run_lstm, lstm_scratch, lstm_packed, lstm_pack>("lstm"),
    steps_kernel<6, run_lstm_grad, lstm_grad_scratch, lstm_grad_packed, lstm_grad_pack>("lstm_grad"),
    steps_kernel<4, run_gru, gru_scratch, gru_packed, gru_pack>("gru"),
    steps_kernel<5, run_gru_grad, gru_grad_scratch, gru_grad_packed, gru_grad_pack>("gru_grad"),
    steps_kernel<3, run_rnn, rnn_scratch, lstm_packed, lstm_pack>("rnn"),
    steps_kernel<3, run_rnn_grad, rnn_scratch, rnn_grad_packed, rnn_grad_pack>("rnn_grad"),
};

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(recurrent);
const KernelList PERIGEE_CPU_KERNELS(recurrent) = kernel_list(kKernels);

}  // namespace perigee
