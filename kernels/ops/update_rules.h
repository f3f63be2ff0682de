// The arithmetic of update_* for one element, written once for all backends: they differ in how they loop, not in what they compute.
// `constexpr`, so that nvcc may call it in device code.
// A rule's call takes the gradient after scaling, clipping and regularisation, advances the states and returns what is
// subtracted from the parameter. c[] are the scalars of UpdateParams::c; bias corrections are made outside (src/optim/optimizers/).
#pragma once

#include <cmath>
#include <limits>

#include "kernels/ops/update.h"

namespace perigee::update {
namespace {  // of its own in each file: they are compiled for different instruction sets

// gradient -> what the rule takes.
template <class T>
struct Gradient {
  constexpr explicit Gradient(const UpdateParams& p)
      : scale(T(p.gradient_scale)),
        limit(p.clip_value > 0 ? T(p.clip_value) : std::numeric_limits<T>::infinity()),
        l1(T(p.l1)),
        l2(T(p.l2)) {}
  // False: only the scale matters, plain() does.
  static constexpr bool wanted(const UpdateParams& p) { return p.clip_value > 0 || p.l1 != 0 || p.l2 != 0; }
  constexpr T plain(T gradient) const { return gradient * scale; }
  constexpr T full(T gradient, T parameter) const {
    T g = gradient * scale;
    g = g > limit ? limit : g;
    g = g < -limit ? -limit : g;
    const T sign = parameter > T(0) ? l1 : parameter < T(0) ? -l1 : T(0);
    return (g + l2 * parameter) + sign;
  }
  T scale, limit, l1, l2;
};

struct Sgd {
  static constexpr const char* kOp = "update_sgd";
  static constexpr int kSlots = 0;
  template <class T>
  struct Step {
    constexpr explicit Step(const UpdateParams& p) : lr(T(p.lr)) {}
    constexpr T operator()(T g) const { return lr * g; }
    T lr;
  };
};

// Heavy-ball momentum as PyTorch has it: c = {momentum, 1 for its Nesterov form}.
struct Momentum {
  static constexpr const char* kOp = "update_momentum";
  static constexpr int kSlots = 1;
  template <class T>
  struct Step {
    constexpr explicit Step(const UpdateParams& p)
        : lr(T(p.lr)), mu(T(p.c[0])), ahead(p.c[1] != 0 ? T(p.c[0]) : T(0)), keep(p.c[1] != 0 ? T(1) : T(0)) {}
    constexpr T operator()(T g, T& velocity) const {
      velocity = mu * velocity + g;
      return keep != T(0) ? lr * (g + ahead * velocity) : lr * velocity;
    }
    T lr, mu, ahead, keep;
  };
};

// Nesterov momentum as Deeplearning4j has it (the learning rate is inside the velocity): c = {momentum, 1 + momentum}.
struct Nesterov {
  static constexpr const char* kOp = "update_nesterov";
  static constexpr int kSlots = 1;
  template <class T>
  struct Step {
    constexpr explicit Step(const UpdateParams& p) : lr(T(p.lr)), mu(T(p.c[0])), next(T(p.c[1])) {}
    constexpr T operator()(T g, T& velocity) const {
      const T before = mu * velocity;
      velocity = before - lr * g;
      return before - next * velocity;
    }
    T lr, mu, next;
  };
};

// c = {epsilon}.
struct AdaGrad {
  static constexpr const char* kOp = "update_adagrad";
  static constexpr int kSlots = 1;
  template <class T>
  struct Step {
    constexpr explicit Step(const UpdateParams& p) : lr(T(p.lr)), eps(T(p.c[0])) {}
    constexpr T operator()(T g, T& sum) const {
      sum = sum + g * g;
      return lr * g / (std::sqrt(sum) + eps);
    }
    T lr, eps;
  };
};

// c = {rho, 1 - rho, epsilon}; states: mean square of gradients, of steps.
struct AdaDelta {
  static constexpr const char* kOp = "update_adadelta";
  static constexpr int kSlots = 2;
  template <class T>
  struct Step {
    constexpr explicit Step(const UpdateParams& p) : lr(T(p.lr)), rho(T(p.c[0])), rest(T(p.c[1])), eps(T(p.c[2])) {}
    constexpr T operator()(T g, T& square, T& delta) const {
      square = rho * square + rest * (g * g);
      const T step = std::sqrt((delta + eps) / (square + eps)) * g;
      delta = rho * delta + rest * (step * step);
      return lr * step;
    }
    T lr, rho, rest, eps;
  };
};

// c = {decay, 1 - decay, epsilon}.
struct RmsProp {
  static constexpr const char* kOp = "update_rmsprop";
  static constexpr int kSlots = 1;
  template <class T>
  struct Step {
    constexpr explicit Step(const UpdateParams& p) : lr(T(p.lr)), rho(T(p.c[0])), rest(T(p.c[1])), eps(T(p.c[2])) {}
    constexpr T operator()(T g, T& square) const {
      square = rho * square + rest * (g * g);
      return lr * g / (std::sqrt(square) + eps);
    }
    T lr, rho, rest, eps;
  };
};

// c = {beta1, 1 - beta1, beta2, 1 - beta2, epsilon, 1 / sqrt(1 - beta2^t)}; lr holds 1 / (1 - beta1^t). Also AdamW, by `decay`.
struct Adam {
  static constexpr const char* kOp = "update_adam";
  static constexpr int kSlots = 2;
  template <class T>
  struct Step {
    constexpr explicit Step(const UpdateParams& p)
        : lr(T(p.lr)), b1(T(p.c[0])), r1(T(p.c[1])), b2(T(p.c[2])), r2(T(p.c[3])), eps(T(p.c[4])), unbias(T(p.c[5])) {}
    constexpr T operator()(T g, T& m, T& v) const {
      m = b1 * m + r1 * g;
      v = b2 * v + r2 * (g * g);
      return lr * m / (std::sqrt(v) * unbias + eps);
    }
    T lr, b1, r1, b2, r2, eps, unbias;
  };
};

// c as for Adam; the third state is the largest v so far.
struct AmsGrad {
  static constexpr const char* kOp = "update_amsgrad";
  static constexpr int kSlots = 3;
  template <class T>
  struct Step {
    constexpr explicit Step(const UpdateParams& p) : adam(p) {}
    constexpr T operator()(T g, T& m, T& v, T& largest) const {
      m = adam.b1 * m + adam.r1 * g;
      v = adam.b2 * v + adam.r2 * (g * g);
      largest = largest > v ? largest : v;
      return adam.lr * m / (std::sqrt(largest) * adam.unbias + adam.eps);
    }
    Adam::Step<T> adam;
  };
};

// c = {beta1, 1 - beta1, beta2, unused, epsilon}; lr holds 1 / (1 - beta1^t). States: mean, decayed maximum.
struct AdaMax {
  static constexpr const char* kOp = "update_adamax";
  static constexpr int kSlots = 2;
  template <class T>
  struct Step {
    constexpr explicit Step(const UpdateParams& p) : lr(T(p.lr)), b1(T(p.c[0])), r1(T(p.c[1])), b2(T(p.c[2])), eps(T(p.c[4])) {}
    constexpr T operator()(T g, T& m, T& u) const {
      m = b1 * m + r1 * g;
      const T kept = b2 * u, size = std::fabs(g) + eps;
      u = kept > size ? kept : size;
      return lr * m / u;
    }
    T lr, b1, r1, b2, eps;
  };
};

// c as for Adam, then {beta1 / (1 - beta1^(t+1)), (1 - beta1) / (1 - beta1^t)}; lr is the plain learning rate.
struct Nadam {
  static constexpr const char* kOp = "update_nadam";
  static constexpr int kSlots = 2;
  template <class T>
  struct Step {
    constexpr explicit Step(const UpdateParams& p) : adam(p), of_mean(T(p.c[6])), of_gradient(T(p.c[7])) {}
    constexpr T operator()(T g, T& m, T& v) const {
      m = adam.b1 * m + adam.r1 * g;
      v = adam.b2 * v + adam.r2 * (g * g);
      return adam.lr * (of_mean * m + of_gradient * g) / (std::sqrt(v) * adam.unbias + adam.eps);
    }
    Adam::Step<T> adam;
    T of_mean, of_gradient;
  };
};

// c = {beta1, 1 - beta1, beta2, 1 - beta2}.
struct Lion {
  static constexpr const char* kOp = "update_lion";
  static constexpr int kSlots = 1;
  template <class T>
  struct Step {
    constexpr explicit Step(const UpdateParams& p) : lr(T(p.lr)), b1(T(p.c[0])), r1(T(p.c[1])), b2(T(p.c[2])), r2(T(p.c[3])) {}
    constexpr T operator()(T g, T& m) const {
      const T direction = b1 * m + r1 * g;
      m = b2 * m + r2 * g;
      return direction > T(0) ? lr : direction < T(0) ? -lr : T(0);
    }
    T lr, b1, r1, b2, r2;
  };
};

// Every backend makes a kernel of each rule. A new rule is a struct above and its name here.
template <class... Rule>
struct RuleList {
  static constexpr const char* kOps[] = {Rule::kOp...};
};
using Rules = RuleList<Sgd, Momentum, Nesterov, AdaGrad, AdaDelta, RmsProp, Adam, AmsGrad, AdaMax, Nadam, Lion>;

}  // namespace
}  // namespace perigee::update
