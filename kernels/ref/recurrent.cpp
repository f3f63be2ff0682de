#include "kernels/ops/recurrent.h"

#include <cmath>

#include "kernels/registry.h"
#include "kernels/view.h"

namespace perigee {
namespace {

template <class T>
T* row(const View& view, int64_t n) {
  return view.as<T>() + n * view.strides[0];
}

// An operand [N,T,K], [N,K] (t is passed over) or [H,J].
template <class T>
struct Cell {
  const View& view;
  bool there() const { return view.data != nullptr; }
  T& operator()(int64_t n, int64_t t, int64_t k) const { return row<T>(view, n)[t * view.strides[1] + k * view.strides[2]]; }
  T& operator()(int64_t n, int64_t k) const { return row<T>(view, n)[k * view.strides[1]]; }
  double or_zero(int64_t n, int64_t t, int64_t k) const { return there() ? static_cast<double>((*this)(n, t, k)) : 0.0; }
  double or_zero(int64_t n, int64_t k) const { return there() ? static_cast<double>((*this)(n, k)) : 0.0; }
};

const View kAbsent;
const View& optional(const KernelCall& call, int i) { return i < call.n_in ? call.in[i] : kAbsent; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The steps of a call in time order, or back from the last one.
struct Steps {
  explicit Steps(const KernelCall& call, const View& sequence)
      : n(sequence.dims[0]), t(sequence.dims[1]), reverse(call.as<RecurrentParams>().reverse) {}
  int64_t at(int64_t i) const { return reverse ? t - 1 - i : i; }
  int64_t n, t;
  bool reverse;
};

// The state before the step: `states` after the step before, or the first state.
template <class T>
double before(const Cell<T>& states, const Cell<T>& first, const Steps& steps, int64_t n, int64_t i, int64_t k) {
  return i > 0 ? static_cast<double>(states(n, steps.at(i - 1), k)) : first.or_zero(n, k);
}

template <class T>
bool counts(const View& mask, int64_t n, int64_t t) {
  return mask.data == nullptr || row<T>(mask, n)[t * mask.strides[1]] >= T(0.5);
}

// sum over k of f(k) r[k, column]
template <class T, class F>
double product(const Cell<T>& r, int64_t column, F f) {
  double sum = 0;
  for (int64_t k = 0; k < r.view.dims[0]; ++k) sum += f(k) * static_cast<double>(r(k, column));
  return sum;
}

template <class T>
struct Lstm {
  static void forward(const KernelCall& call) {
    const Cell<T> x{call.in[0]}, r{call.in[1]}, h0{optional(call, 2)}, c0{optional(call, 3)};
    const Cell<T> h{call.out[0]}, c{call.out[1]}, gates{call.out[2]};
    const View& mask = optional(call, 4);
    const Steps steps(call, h.view);
    const int64_t units = h.view.dims[2];
    for (int64_t i = 0; i < steps.t; ++i)
      for (int64_t n = 0; n < steps.n; ++n)
        for (int64_t j = 0; j < units; ++j) {
          const int64_t t = steps.at(i);
          double gate[4];
          for (int g = 0; g < 4; ++g) {
            const int64_t column = g * units + j;
            const double sum =
                static_cast<double>(x(n, t, column)) + product(r, column, [&](int64_t k) { return before(h, h0, steps, n, i, k); });
            gate[g] = g == 2 ? std::tanh(sum) : sigmoid(sum);
            gates(n, t, column) = static_cast<T>(gate[g]);
          }
          const bool on = counts<T>(mask, n, t);
          const double old = before(c, c0, steps, n, i, j), next = on ? gate[1] * old + gate[0] * gate[2] : old;
          c(n, t, j) = static_cast<T>(next);
          h(n, t, j) = static_cast<T>(on ? gate[3] * std::tanh(next) : before(h, h0, steps, n, i, j));
        }
  }

  // dh0 and dc0 hold what flows to the states before the step.
  static void backward(const KernelCall& call) {
    const Cell<T> dh{call.in[0]}, dc{call.in[1]}, r{call.in[2]}, c{call.in[3]}, gates{call.in[4]}, c0{optional(call, 5)};
    const Cell<T> dx{call.out[0]}, dh0{call.out[1]}, dc0{call.out[2]};
    const Steps steps(call, c.view);
    const int64_t units = c.view.dims[2];
    for (int64_t i = steps.t; i-- > 0;)
      for (int64_t n = 0; n < steps.n; ++n) {
        const int64_t t = steps.at(i);
        const bool on = counts<T>(optional(call, 6), n, t), last = i + 1 == steps.t;
        for (int64_t j = 0; j < units; ++j) {
          double gate[4];  // dx may lie where the gates do
          for (int g = 0; g < 4; ++g) gate[g] = static_cast<double>(gates(n, t, g * units + j));
          const auto put = [&](int g, double value) { dx(n, t, g * units + j) = static_cast<T>(on ? value : 0); };
          const double flow = dh.or_zero(n, t, j) + (last ? 0 : static_cast<double>(dh0(n, j)));
          const double tanh_c = std::tanh(static_cast<double>(c(n, t, j)));
          double state = dc.or_zero(n, t, j) + (last ? 0 : static_cast<double>(dc0(n, j)));
          if (on) state += flow * gate[3] * (1 - tanh_c * tanh_c);
          put(0, state * gate[2] * gate[0] * (1 - gate[0]));
          put(1, state * before(c, c0, steps, n, i, j) * gate[1] * (1 - gate[1]));
          put(2, state * gate[0] * (1 - gate[2] * gate[2]));
          put(3, flow * tanh_c * gate[3] * (1 - gate[3]));
          dc0(n, j) = static_cast<T>(on ? state * gate[1] : state);
          dh0(n, j) = static_cast<T>(on ? 0 : flow);
        }
        for (int64_t k = 0; on && k < units; ++k) {
          double sum = 0;
          for (int64_t j = 0; j < 4 * units; ++j) sum += static_cast<double>(dx(n, t, j)) * static_cast<double>(r(k, j));
          dh0(n, k) = static_cast<T>(sum);
        }
      }
  }
};

template <class T>
struct Gru {
  static void forward(const KernelCall& call) {
    const Cell<T> x{call.in[0]}, r{call.in[1]}, bias{optional(call, 2)}, h0{optional(call, 3)}, h{call.out[0]}, gates{call.out[1]};
    const bool after = call.as<RecurrentParams>().reset == RecurrentReset::after;
    const Steps steps(call, h.view);
    const int64_t units = h.view.dims[2];
    for (int64_t i = 0; i < steps.t; ++i)
      for (int64_t n = 0; n < steps.n; ++n) {
        const int64_t t = steps.at(i);
        const auto old = [&](int64_t k) { return before(h, h0, steps, n, i, k); };
        for (int64_t j = 0; j < 2 * units; ++j)
          gates(n, t, j) = static_cast<T>(sigmoid(static_cast<double>(x(n, t, j)) + product(r, j, old)));
        for (int64_t j = 0; j < units; ++j) {
          const double b = bias.there() ? static_cast<double>(bias.view.template as<T>()[j * bias.view.strides[0]]) : 0;
          const double v = after ? product(r, 2 * units + j, old) + b : static_cast<double>(gates(n, t, j)) * old(j);
          gates(n, t, 3 * units + j) = static_cast<T>(v);
        }
        for (int64_t j = 0; j < units; ++j) {
          const auto v = [&](int64_t k) { return static_cast<double>(gates(n, t, 3 * units + k)); };
          const double sum = after ? static_cast<double>(gates(n, t, j)) * v(j) : product(r, 2 * units + j, v);
          const double next = std::tanh(static_cast<double>(x(n, t, 2 * units + j)) + sum);
          const double z = static_cast<double>(gates(n, t, units + j));
          gates(n, t, 2 * units + j) = static_cast<T>(next);
          h(n, t, j) = static_cast<T>(counts<T>(optional(call, 4), n, t) ? (1 - z) * next + z * old(j) : old(j));
        }
      }
  }

  static void backward(const KernelCall& call) {
    const Cell<T> dh{call.in[0]}, r{call.in[1]}, h{call.in[2]}, gates{call.in[3]}, h0{optional(call, 4)}, d{call.out[0]}, dh0{call.out[1]};
    const bool after = call.as<RecurrentParams>().reset == RecurrentReset::after;
    const Steps steps(call, h.view);
    const int64_t units = h.view.dims[2];
    for (int64_t i = steps.t; i-- > 0;)
      for (int64_t n = 0; n < steps.n; ++n) {
        const int64_t t = steps.at(i);
        const bool on = counts<T>(optional(call, 5), n, t);
        const auto gate = [&](int64_t g, int64_t j) { return static_cast<double>(gates(n, t, g * units + j)); };
        const auto flow = [&](int64_t g, int64_t j) { return static_cast<double>(d(n, t, g * units + j)); };
        const auto put = [&](int64_t g, int64_t j, double value) { d(n, t, g * units + j) = static_cast<T>(on ? value : 0); };
        for (int64_t j = 0; j < units; ++j) {
          const double whole = static_cast<double>(dh(n, t, j)) + (i + 1 == steps.t ? 0 : static_cast<double>(dh0(n, j)));
          const double z = gate(1, j), next = gate(2, j);
          put(1, j, whole * (before(h, h0, steps, n, i, j) - next) * z * (1 - z));
          put(2, j, whole * (1 - z) * (1 - next * next));
          dh0(n, j) = static_cast<T>(on ? whole * z : whole);
        }
        for (int64_t j = 0; j < units; ++j) {
          double dv = flow(2, j) * gate(0, j), dr = flow(2, j) * gate(3, j);
          if (!after) {
            dv = 0;
            for (int64_t k = 0; k < units; ++k) dv += flow(2, k) * static_cast<double>(r(j, 2 * units + k));
            dr = dv * before(h, h0, steps, n, i, j);
          }
          put(3, j, dv);
          put(0, j, dr * gate(0, j) * (1 - gate(0, j)));
        }
        for (int64_t k = 0; on && k < units; ++k) {
          double sum = static_cast<double>(dh0(n, k)) + (after ? 0 : flow(3, k) * gate(0, k));
          for (int64_t j = 0; j < units; ++j) {
            sum += flow(0, j) * static_cast<double>(r(k, j)) + flow(1, j) * static_cast<double>(r(k, units + j));
            if (after) sum += flow(3, j) * static_cast<double>(r(k, 2 * units + j));
          }
          dh0(n, k) = static_cast<T>(sum);
        }
      }
  }
};

template <class T>
struct Rnn {
  static void forward(const KernelCall& call) {
    const Cell<T> x{call.in[0]}, r{call.in[1]}, h0{optional(call, 2)}, h{call.out[0]};
    const bool relu = call.as<RecurrentParams>().activation == RecurrentActivation::relu;
    const Steps steps(call, h.view);
    for (int64_t i = 0; i < steps.t; ++i)
      for (int64_t n = 0; n < steps.n; ++n)
        for (int64_t j = 0; j < h.view.dims[2]; ++j) {
          const int64_t t = steps.at(i);
          const double sum = static_cast<double>(x(n, t, j)) + product(r, j, [&](int64_t k) { return before(h, h0, steps, n, i, k); });
          const double next = relu ? (sum < 0 ? 0 : sum) : std::tanh(sum);
          h(n, t, j) = static_cast<T>(counts<T>(optional(call, 3), n, t) ? next : before(h, h0, steps, n, i, j));
        }
  }

  static void backward(const KernelCall& call) {
    const Cell<T> dh{call.in[0]}, r{call.in[1]}, h{call.in[2]}, dx{call.out[0]}, dh0{call.out[1]};
    const bool relu = call.as<RecurrentParams>().activation == RecurrentActivation::relu;
    const Steps steps(call, h.view);
    const int64_t units = h.view.dims[2];
    for (int64_t i = steps.t; i-- > 0;)
      for (int64_t n = 0; n < steps.n; ++n) {
        const int64_t t = steps.at(i);
        const bool on = counts<T>(optional(call, 3), n, t);
        for (int64_t j = 0; j < units; ++j) {
          const double flow = static_cast<double>(dh(n, t, j)) + (i + 1 == steps.t ? 0 : static_cast<double>(dh0(n, j)));
          const double y = static_cast<double>(h(n, t, j));
          dx(n, t, j) = static_cast<T>(!on ? 0 : relu ? (y > 0 ? flow : 0) : flow * (1 - y * y));
          dh0(n, j) = static_cast<T>(on ? 0 : flow);
        }
        for (int64_t k = 0; on && k < units; ++k) {
          double sum = 0;
          for (int64_t j = 0; j < units; ++j) sum += static_cast<double>(dx(n, t, j)) * static_cast<double>(r(k, j));
          dh0(n, k) = static_cast<T>(sum);
        }
      }
  }
};

template <class T>
struct Weight {
  static void run(const KernelCall& call) {
    const Cell<T> d{call.in[0]}, h{call.in[1]}, h0{optional(call, 2)}, gates{optional(call, 3)}, dr{call.out[0]};
    const RecurrentReset reset = call.as<RecurrentParams>().reset;
    const Steps steps(call, h.view);
    const int64_t units = h.view.dims[2];
    for (int64_t k = 0; k < units; ++k)
      for (int64_t j = 0; j < dr.view.dims[1]; ++j) {
        const bool third = reset != RecurrentReset::none && j >= 2 * units;
        const int64_t from = third && reset == RecurrentReset::after ? j + units : j;
        double sum = call.accumulate ? static_cast<double>(dr(k, j)) : 0;
        for (int64_t n = 0; n < steps.n; ++n)
          for (int64_t i = 0; i < steps.t; ++i) {
            const double left = third && reset == RecurrentReset::before ? static_cast<double>(gates(n, steps.at(i), 3 * units + k))
                                                                         : before(h, h0, steps, n, i, k);
            sum += left * static_cast<double>(d(n, steps.at(i), from));
          }
        dr(k, j) = static_cast<T>(sum);
      }
  }
};

template <void (*F32)(const KernelCall&), void (*F64)(const KernelCall&)>
void typed(const KernelCall& call) {
  call.out[0].dtype == Dtype::f64 ? F64(call) : F32(call);
}

const Kernel kRecurrentKernels[] = {
    {.op = "lstm", .name = "ref", .run = typed<Lstm<float>::forward, Lstm<double>::forward>},
    {.op = "lstm_grad", .name = "ref", .run = typed<Lstm<float>::backward, Lstm<double>::backward>},
    {.op = "gru", .name = "ref", .run = typed<Gru<float>::forward, Gru<double>::forward>},
    {.op = "gru_grad", .name = "ref", .run = typed<Gru<float>::backward, Gru<double>::backward>},
    {.op = "rnn", .name = "ref", .run = typed<Rnn<float>::forward, Rnn<double>::forward>},
    {.op = "rnn_grad", .name = "ref", .run = typed<Rnn<float>::backward, Rnn<double>::backward>},
    {.op = "recurrent_grad_weight", .name = "ref", .run = typed<Weight<float>::run, Weight<double>::run>, .accumulates = true},
};

}  // namespace

extern const KernelList kernels_ref_recurrent;
const KernelList kernels_ref_recurrent = kernel_list(kRecurrentKernels);

}  // namespace perigee
