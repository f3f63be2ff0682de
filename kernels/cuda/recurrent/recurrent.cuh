// Recurrent cells: in each step a product of the state with the recurrent weights for all examples, then a kernel with a thread for each
// unit of each example. 2 T launches a pass, all in the step's graph. The products of a step are left where its gates will be.
//
// `Product` makes sums of products: product(on, a, b, c, accumulate, scratch).
#pragma once

#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/product/matrix.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/ops/recurrent.h"
#include "kernels/registry.h"

namespace perigee {

// A matrix whose rows and columns may each be several dimensions.
struct StepMatrix {
  Elements of;
  Index rows, columns;
};

inline View shifted(const View& view, int64_t offset) {
  View result = view;
  result.data = static_cast<std::byte*>(view.data) + offset * static_cast<int64_t>(dtype_bytes(view.dtype));
  return result;
}

inline StepMatrix step_matrix(const View& view, int64_t offset, int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride) {
  StepMatrix matrix{.of = Elements(shifted(view, offset)), .rows = {}, .columns = {}};
  matrix.rows.add(rows, row_stride);
  matrix.columns.add(columns, column_stride);
  return matrix;
}

// Step t of [N,T,K], `count` columns from `first`.
inline StepMatrix at_step(const View& v, int64_t t, int64_t first, int64_t count) {
  return step_matrix(v, t * v.strides[1] + first * v.strides[2], v.dims[0], v.strides[0], count, v.strides[2]);
}
inline StepMatrix whole_matrix(const View& v) { return step_matrix(v, 0, v.dims[0], v.strides[0], v.dims[1], v.strides[1]); }
inline StepMatrix weight_columns(const View& r, int64_t first, int64_t count) {
  return step_matrix(r, first * r.strides[1], r.dims[0], r.strides[0], count, r.strides[1]);
}
inline StepMatrix turned(StepMatrix m) {
  std::swap(m.rows, m.columns);
  return m;
}

// An operand of the unit kernels: [N,K] at one step, absent where there is none.
struct StepRows {
  StepRows() = default;
  StepRows(const View& v, int64_t t)
      : data(v.data), example(v.strides[0]), unit(v.rank > 0 ? v.strides[v.rank - 1] : 0), offset(v.rank == 3 ? t * v.strides[1] : 0) {}
  template <class T>
  __device__ T& at(int64_t n, int64_t k) const {
    return static_cast<T*>(data)[offset + n * example + k * unit];
  }
  template <class T>
  __device__ T or_zero(int64_t n, int64_t k) const {
    return data != nullptr ? at<T>(n, k) : T(0);
  }
  void* data = nullptr;
  int64_t example = 0, unit = 0, offset = 0;
};

struct StepCall {
  StepRows x, h_before, c_before, h, c, gates, mask, bias;  // forward
  StepRows dh, dc, dx, flow, cell;                          // backward
  int64_t examples = 0, units = 0;
  bool has_product = false, after = false, relu = false, last = false;

  template <class T>
  __device__ bool counts(int64_t n) const {
    return mask.data == nullptr || mask.at<T>(n, 0) >= T(0.5);
  }
};

// mask[:, t] as rows of one column.
inline StepRows mask_at(const View& mask, int64_t t) {
  StepRows rows;
  if (mask.data == nullptr) return rows;
  rows.data = mask.data, rows.example = mask.strides[0], rows.offset = t * mask.strides[1];
  return rows;
}

template <class T>
__device__ T gate_of(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

// Calls f(n, j) for each unit of each example.
template <class F>
__device__ void for_each_unit(const StepCall& call, F f) {
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.examples * call.units; i += threads_of_grid()) f(i / call.units, i % call.units);
}

template <class T>
__global__ void __launch_bounds__(kThreads) lstm_step(const __grid_constant__ StepCall call) {
  begin_kernel();
  for_each_unit(call, [&](int64_t n, int64_t j) {
    T gate[4];
    for (int g = 0; g < 4; ++g) {
      const int64_t column = g * call.units + j;
      T sum = call.x.at<T>(n, column);
      if (call.has_product) sum += call.gates.at<T>(n, column);
      gate[g] = g == 2 ? std::tanh(sum) : gate_of(sum);
      call.gates.at<T>(n, column) = gate[g];
    }
    const T old = call.c_before.or_zero<T>(n, j);
    const bool on = call.counts<T>(n);
    const T cell = on ? gate[1] * old + gate[0] * gate[2] : old;
    call.c.at<T>(n, j) = cell;
    call.h.at<T>(n, j) = on ? gate[3] * std::tanh(cell) : call.h_before.or_zero<T>(n, j);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) lstm_grad_step(const __grid_constant__ StepCall call) {
  begin_kernel();
  for_each_unit(call, [&](int64_t n, int64_t j) {
    const auto gate = [&](int64_t g) { return call.gates.at<T>(n, g * call.units + j); };
    const bool on = call.counts<T>(n);
    const T flow = call.dh.or_zero<T>(n, j) + (call.last ? T(0) : call.flow.at<T>(n, j)), shown = std::tanh(call.c.at<T>(n, j));
    T cell = call.dc.or_zero<T>(n, j) + (call.last ? T(0) : call.cell.at<T>(n, j));
    if (on) cell += flow * gate(3) * (T(1) - shown * shown);
    const auto put = [&](int64_t g, T value) { call.dx.at<T>(n, g * call.units + j) = on ? value : T(0); };
    put(0, cell * gate(2) * gate(0) * (T(1) - gate(0)));
    put(1, cell * call.c_before.or_zero<T>(n, j) * gate(1) * (T(1) - gate(1)));
    put(2, cell * gate(0) * (T(1) - gate(2) * gate(2)));
    put(3, flow * shown * gate(3) * (T(1) - gate(3)));
    call.cell.at<T>(n, j) = on ? cell * gate(1) : cell;
    call.flow.at<T>(n, j) = on ? T(0) : flow;
  });
}

// r, z, and v where it needs no further product.
template <class T>
__global__ void __launch_bounds__(kThreads) gru_gates_step(const __grid_constant__ StepCall call) {
  begin_kernel();
  for_each_unit(call, [&](int64_t n, int64_t j) {
    for (int g = 0; g < 2; ++g) {
      T& gate = call.gates.at<T>(n, g * call.units + j);
      gate = gate_of(call.has_product ? call.x.at<T>(n, g * call.units + j) + gate : call.x.at<T>(n, g * call.units + j));
    }
    T& v = call.gates.at<T>(n, 3 * call.units + j);
    if (!call.after) v = call.gates.at<T>(n, j) * call.h_before.or_zero<T>(n, j);
    else v = (call.has_product ? v : T(0)) + call.bias.or_zero<T>(0, j);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) gru_state_step(const __grid_constant__ StepCall call) {
  begin_kernel();
  for_each_unit(call, [&](int64_t n, int64_t j) {
    T& next = call.gates.at<T>(n, 2 * call.units + j);
    const T inner = call.after ? call.gates.at<T>(n, j) * call.gates.at<T>(n, 3 * call.units + j) : call.has_product ? next : T(0);
    next = std::tanh(call.x.at<T>(n, 2 * call.units + j) + inner);
    const T update = call.gates.at<T>(n, call.units + j), old = call.h_before.or_zero<T>(n, j);
    call.h.at<T>(n, j) = call.counts<T>(n) ? (T(1) - update) * next + update * old : old;
  });
}

// Gradients of the sums inside z and n, and where the reset acts after the product, of r and v.
template <class T>
__global__ void __launch_bounds__(kThreads) gru_grad_step(const __grid_constant__ StepCall call) {
  begin_kernel();
  for_each_unit(call, [&](int64_t n, int64_t j) {
    const auto gate = [&](int64_t g) { return call.gates.at<T>(n, g * call.units + j); };
    const bool on = call.counts<T>(n);
    const auto put = [&](int64_t g, T value) { call.dx.at<T>(n, g * call.units + j) = on ? value : T(0); };
    const T all = call.dh.at<T>(n, j) + (call.last ? T(0) : call.flow.at<T>(n, j));
    const T dn = all * (T(1) - gate(1)) * (T(1) - gate(2) * gate(2));
    put(1, all * (call.h_before.or_zero<T>(n, j) - gate(2)) * gate(1) * (T(1) - gate(1)));
    put(2, dn);
    if (call.after) put(0, dn * gate(3) * gate(0) * (T(1) - gate(0))), put(3, dn * gate(0));
    call.flow.at<T>(n, j) = on ? all * gate(1) : all;
  });
}

// With the reset before the product, once the gradient of v is there; it is 0 at masked steps.
template <class T>
__global__ void __launch_bounds__(kThreads) gru_grad_reset_step(const __grid_constant__ StepCall call) {
  begin_kernel();
  for_each_unit(call, [&](int64_t n, int64_t j) {
    const T reset = call.gates.at<T>(n, j), dv = call.dx.at<T>(n, 3 * call.units + j);
    call.dx.at<T>(n, j) = dv * call.h_before.or_zero<T>(n, j) * reset * (T(1) - reset);
    call.flow.at<T>(n, j) += dv * reset;
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) rnn_step(const __grid_constant__ StepCall call) {
  begin_kernel();
  for_each_unit(call, [&](int64_t n, int64_t j) {
    T& h = call.h.at<T>(n, j);
    const T sum = call.has_product ? call.x.at<T>(n, j) + h : call.x.at<T>(n, j);
    const T next = !call.relu ? std::tanh(sum) : sum < T(0) ? T(0) : sum;
    h = call.counts<T>(n) ? next : call.h_before.or_zero<T>(n, j);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) rnn_grad_step(const __grid_constant__ StepCall call) {
  begin_kernel();
  for_each_unit(call, [&](int64_t n, int64_t j) {
    const T all = call.dh.at<T>(n, j) + (call.last ? T(0) : call.flow.at<T>(n, j)), y = call.h.at<T>(n, j);
    const bool on = call.counts<T>(n);
    call.dx.at<T>(n, j) = !on ? T(0) : call.relu ? (y > T(0) ? all : T(0)) : all * (T(1) - y * y);
    call.flow.at<T>(n, j) = on ? T(0) : all;
  });
}

// The calls, on the host.

inline const View& operand_or_none(const KernelCall& call, int i) {
  static const View none;
  return i < call.n_in ? call.in[i] : none;
}

struct StepSizes {
  StepSizes(const KernelCall& call, const View& h) : n(h.dims[0]), t(h.dims[1]), h(h.dims[2]), params(call.as<RecurrentParams>()) {}
  int64_t at(int64_t i) const { return params.reverse ? t - 1 - i : i; }
  // The state before step i.
  StepRows before(const View& states, const View& first, int64_t i) const {
    return i > 0 ? StepRows(states, at(i - 1)) : StepRows(first, 0);
  }
  StepMatrix state_before(const View& states, const View& first, int64_t i) const {
    return i > 0 ? at_step(states, at(i - 1), 0, h) : whole_matrix(first);
  }
  StepCall call() const { return {.examples = n, .units = h, .relu = params.activation == RecurrentActivation::relu}; }
  int64_t blocks() const { return blocks_for(n * h); }
  int64_t n, t, h;
  RecurrentParams params;
};

template <class T, class Product>
struct RecurrentSteps {
  static void lstm(const KernelCall& call) {
    const View &x = call.in[0], &r = call.in[1], &h0 = operand_or_none(call, 2), &c0 = operand_or_none(call, 3), &h = call.out[0];
    const StepSizes s(call, h);
    Launches on(*call.queue, "lstm");
    for (int64_t i = 0; i < s.t; ++i) {
      const int64_t t = s.at(i);
      StepCall step = s.call();
      step.has_product = i > 0 || h0.data != nullptr;
      if (step.has_product)
        Product::run(on, s.state_before(h, h0, i), weight_columns(r, 0, 4 * s.h), at_step(call.out[2], t, 0, 4 * s.h), false, call.scratch);
      step.x = StepRows(x, t), step.h_before = s.before(h, h0, i), step.c_before = s.before(call.out[1], c0, i);
      step.h = StepRows(h, t), step.c = StepRows(call.out[1], t), step.gates = StepRows(call.out[2], t);
      step.mask = mask_at(operand_or_none(call, 4), t);
      on.launch(lstm_step<T>, s.blocks(), kThreads, step);
    }
  }

  static void lstm_grad(const KernelCall& call) {
    const View &r = call.in[2], &c = call.in[3], &c0 = operand_or_none(call, 5);
    const StepSizes s(call, c);
    Launches on(*call.queue, "lstm_grad");
    for (int64_t i = s.t; i-- > 0;) {
      const int64_t t = s.at(i);
      StepCall step = s.call();
      step.last = i + 1 == s.t;
      step.dh = StepRows(call.in[0], t), step.dc = StepRows(call.in[1], t), step.c = StepRows(c, t), step.c_before = s.before(c, c0, i);
      step.gates = StepRows(call.in[4], t), step.dx = StepRows(call.out[0], t);
      step.flow = StepRows(call.out[1], 0), step.cell = StepRows(call.out[2], 0);
      step.mask = mask_at(operand_or_none(call, 6), t);
      on.launch(lstm_grad_step<T>, s.blocks(), kThreads, step);
      Product::run(on, at_step(call.out[0], t, 0, 4 * s.h), turned(weight_columns(r, 0, 4 * s.h)), whole_matrix(call.out[1]), true,
                   call.scratch);
    }
  }

  static void gru(const KernelCall& call) {
    const View &r = call.in[1], &bias = operand_or_none(call, 2), &h0 = operand_or_none(call, 3), &h = call.out[0], &gates = call.out[1];
    const StepSizes s(call, h);
    Launches on(*call.queue, "gru");
    for (int64_t i = 0; i < s.t; ++i) {
      const int64_t t = s.at(i);
      StepCall step = s.call();
      step.after = s.params.reset == RecurrentReset::after;
      step.has_product = i > 0 || h0.data != nullptr;
      step.x = StepRows(call.in[0], t), step.h_before = s.before(h, h0, i), step.h = StepRows(h, t), step.gates = StepRows(gates, t);
      step.mask = mask_at(operand_or_none(call, 4), t);
      if (bias.data != nullptr) step.bias.data = bias.data, step.bias.unit = bias.strides[0];
      if (step.has_product) {
        Product::run(on, s.state_before(h, h0, i), weight_columns(r, 0, 2 * s.h), at_step(gates, t, 0, 2 * s.h), false, call.scratch);
        if (step.after)
          Product::run(on, s.state_before(h, h0, i), weight_columns(r, 2 * s.h, s.h), at_step(gates, t, 3 * s.h, s.h), false, call.scratch);
      }
      on.launch(gru_gates_step<T>, s.blocks(), kThreads, step);
      if (step.has_product && !step.after)
        Product::run(on, at_step(gates, t, 3 * s.h, s.h), weight_columns(r, 2 * s.h, s.h), at_step(gates, t, 2 * s.h, s.h), false,
                     call.scratch);
      on.launch(gru_state_step<T>, s.blocks(), kThreads, step);
    }
  }

  static void gru_grad(const KernelCall& call) {
    const View &r = call.in[1], &h = call.in[2], &h0 = operand_or_none(call, 4), &d = call.out[0];
    const StepSizes s(call, h);
    Launches on(*call.queue, "gru_grad");
    const StepMatrix flow = whole_matrix(call.out[1]), inner = turned(weight_columns(r, 2 * s.h, s.h));
    for (int64_t i = s.t; i-- > 0;) {
      const int64_t t = s.at(i);
      StepCall step = s.call();
      step.after = s.params.reset == RecurrentReset::after, step.last = i + 1 == s.t;
      step.dh = StepRows(call.in[0], t), step.h_before = s.before(h, h0, i), step.gates = StepRows(call.in[3], t);
      step.dx = StepRows(d, t), step.flow = StepRows(call.out[1], 0);
      step.mask = mask_at(operand_or_none(call, 5), t);
      on.launch(gru_grad_step<T>, s.blocks(), kThreads, step);
      if (step.after) {
        Product::run(on, at_step(d, t, 3 * s.h, s.h), inner, flow, true, call.scratch);
      } else {
        Product::run(on, at_step(d, t, 2 * s.h, s.h), inner, at_step(d, t, 3 * s.h, s.h), false, call.scratch);
        on.launch(gru_grad_reset_step<T>, s.blocks(), kThreads, step);
      }
      Product::run(on, at_step(d, t, 0, 2 * s.h), turned(weight_columns(r, 0, 2 * s.h)), flow, true, call.scratch);
    }
  }

  static void rnn(const KernelCall& call) {
    const View &h0 = operand_or_none(call, 2), &h = call.out[0];
    const StepSizes s(call, h);
    Launches on(*call.queue, "rnn");
    for (int64_t i = 0; i < s.t; ++i) {
      const int64_t t = s.at(i);
      StepCall step = s.call();
      step.has_product = i > 0 || h0.data != nullptr;
      if (step.has_product)
        Product::run(on, s.state_before(h, h0, i), weight_columns(call.in[1], 0, s.h), at_step(h, t, 0, s.h), false, call.scratch);
      step.x = StepRows(call.in[0], t), step.h = StepRows(h, t), step.h_before = s.before(h, h0, i);
      step.mask = mask_at(operand_or_none(call, 3), t);
      on.launch(rnn_step<T>, s.blocks(), kThreads, step);
    }
  }

  static void rnn_grad(const KernelCall& call) {
    const View& dx = call.out[0];
    const StepSizes s(call, call.in[2]);
    Launches on(*call.queue, "rnn_grad");
    for (int64_t i = s.t; i-- > 0;) {
      const int64_t t = s.at(i);
      StepCall step = s.call();
      step.last = i + 1 == s.t;
      step.dh = StepRows(call.in[0], t), step.h = StepRows(call.in[2], t), step.dx = StepRows(dx, t), step.flow = StepRows(call.out[1], 0);
      step.mask = mask_at(operand_or_none(call, 3), t);
      on.launch(rnn_grad_step<T>, s.blocks(), kThreads, step);
      Product::run(on, at_step(dx, t, 0, s.h), turned(weight_columns(call.in[1], 0, s.h)), whole_matrix(call.out[1]), true, call.scratch);
    }
  }

  // `rows` of some steps as one: of all examples, `steps` steps from `first` on.
  static StepMatrix over_steps(const View& v, int64_t first, int64_t steps, int64_t column, int64_t count) {
    StepMatrix m{.of = Elements(shifted(v, first * v.strides[1] + column * v.strides[2])), .rows = {}, .columns = {}};
    m.rows.add(v.dims[0], v.strides[0]);
    m.rows.add(steps, v.strides[1]);
    m.columns.add(count, v.strides[2]);
    return m;
  }

  // dr[:, column..] from the states before each step: those of all steps but the last, and the first state.
  static void state_products(Launches& on, const KernelCall& call, const StepSizes& s, int64_t from, int64_t column, int64_t count) {
    const View &d = call.in[0], &h = call.in[1], &h0 = operand_or_none(call, 2);
    const StepMatrix to = weight_columns(call.out[0], column, count);
    const int64_t later = s.params.reverse ? 0 : 1;  // the first of the steps that have one before, in memory order
    Product::run(on, turned(over_steps(h, 1 - later, s.t - 1, 0, s.h)), over_steps(d, later, s.t - 1, from, count), to, call.accumulate,
                 call.scratch);
    if (h0.data != nullptr) Product::run(on, turned(whole_matrix(h0)), at_step(d, s.at(0), from, count), to, true, call.scratch);
  }

  static void weight(const KernelCall& call) {
    const View &d = call.in[0], &h = call.in[1];
    const StepSizes s(call, h);
    Launches on(*call.queue, "recurrent_grad_weight");
    if (s.params.reset == RecurrentReset::none) return state_products(on, call, s, 0, 0, call.out[0].dims[1]);
    state_products(on, call, s, 0, 0, 2 * s.h);
    if (s.params.reset == RecurrentReset::after) return state_products(on, call, s, 3 * s.h, 2 * s.h, s.h);
    Product::run(on, turned(over_steps(call.in[3], 0, s.t, 3 * s.h, s.h)), over_steps(d, 0, s.t, 2 * s.h, s.h),
                 weight_columns(call.out[0], 2 * s.h, s.h), call.accumulate, call.scratch);
  }
};

}  // namespace perigee
