// Beyond the enumerating parity test: how many units of the last place the approximations are off, and their special values.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "src/graph/plan.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

std::vector<const Kernel*> cpu_kernels(std::string_view op) {
  std::vector<const Kernel*> result;
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (op == list.first[i].op && list.first[i].backend == Backend::cpu && list.first[i].isa <= host_isa())
        result.push_back(&list.first[i]);
  return result;
}

std::vector<float> apply(const Kernel& kernel, std::vector<float>& x) {
  std::vector<float> y(x.size());
  const Shape shape{static_cast<int64_t>(x.size())};
  const View in = contiguous_view(x.data(), Dtype::f32, shape), out = contiguous_view(y.data(), Dtype::f32, shape);
  run_kernel(kernel, {.in = &in, .out = &out, .n_in = 1, .n_out = 1});
  return y;
}

// Kernels that the plan would not choose for this call are left out.
bool takes_f32(const Kernel& kernel, int64_t n) {
  const View x = contiguous_view(nullptr, Dtype::f32, Shape{n});
  return !kernel.decline || !kernel.decline({.in = &x, .out = &x, .n_in = 1, .n_out = 1});
}

// The distance in units of the last place of the true value.
double ulps(float got, double truth) {
  const float rounded = static_cast<float>(truth);
  const float next = std::nextafter(std::abs(rounded), std::numeric_limits<float>::infinity());
  return std::abs(static_cast<double>(got) - truth) / (static_cast<double>(next) - static_cast<double>(std::abs(rounded)));
}

struct Bound {
  const char* op;
  double (*truth)(double);
  double low, high;
  double ulps;
};

double sigmoid_truth(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_truth(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

constexpr Bound kBounds[] = {
    {"exp", std::exp, -87, 88.7, 1.5},   {"exp", std::exp, -1, 1, 1.5},          {"expm1", std::expm1, -20, 80, 3},
    {"expm1", std::expm1, -0.1, 0.1, 3}, {"log", std::log, 1e-30, 1e30, 1.5},    {"log", std::log, 0.5, 2, 2},
    {"log1p", std::log1p, -0.9, 20, 4},  {"log1p", std::log1p, -1e-3, 1e-3, 4},  {"tanh", std::tanh, -10, 10, 6},
    {"tanh", std::tanh, -0.01, 0.01, 5}, {"sigmoid", sigmoid_truth, -80, 80, 3}, {"softplus", softplus_truth, -80, 80, 4},
    {"erf", std::erf, -6, 6, 5},         {"erf", std::erf, -0.01, 0.01, 5},
};

TEST(Elementwise, ApproximationsAreWithinTheirUnitsOfTheLastPlace) {
  for (const Bound& bound : kBounds) {
    std::vector<float> x(100'003);
    const bool geometric = bound.low > 0 && bound.high / bound.low > 1e6;
    for (size_t i = 0; i < x.size(); ++i) {
      const double t = static_cast<double>(i) / static_cast<double>(x.size() - 1);
      x[i] = static_cast<float>(geometric ? bound.low * std::pow(bound.high / bound.low, t) : bound.low + (bound.high - bound.low) * t);
    }
    for (const Kernel* kernel : cpu_kernels(bound.op)) {
      if (!takes_f32(*kernel, static_cast<int64_t>(x.size()))) continue;
      const std::vector<float> y = apply(*kernel, x);
      double worst = 0;
      float where = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double off = ulps(y[i], bound.truth(x[i]));
        if (!(off <= worst)) worst = off, where = x[i];
      }
      EXPECT_LE(worst, bound.ulps) << bound.op << " on " << isa_name(kernel->isa) << " at " << where;
      if (std::getenv("PERIGEE_VERBOSE"))
        std::printf("%-9s %-9s [%g, %g]: %.2f ulp at %g\n", bound.op, isa_name(kernel->isa), bound.low, bound.high, worst,
                    static_cast<double>(where));
    }
  }
}

TEST(Elementwise, SpecialValuesAreThoseOfTheReference) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {0.0f,   -0.0f, inf,   -inf, nan,   1e-45f, -1e-45f, 200.0f, -200.0f,   3e38f,
                          -3e38f, 1.0f,  -1.0f, 0.5f, -0.5f, 2.5f,   88.8f,   -88.8f, 8388609.0f};
  for (const char* op : {"neg", "abs", "sign", "square", "reciprocal", "sqrt", "exp", "expm1", "log", "log1p", "tanh", "sigmoid",
                         "softplus", "relu", "erf", "floor", "ceil", "round"}) {
    const std::vector<float> expected = apply(*ref_kernel(op), x);
    for (const Kernel* kernel : cpu_kernels(op)) {
      if (!takes_f32(*kernel, static_cast<int64_t>(x.size()))) continue;
      const std::vector<float> got = apply(*kernel, x);
      for (size_t i = 0; i < x.size(); ++i) {
        const bool same = std::isnan(expected[i])
                              ? std::isnan(got[i])
                              : got[i] == expected[i] || std::abs(got[i] - expected[i]) <= 1e-6f * std::abs(expected[i]) + 2e-38f;
        EXPECT_TRUE(same) << op << "(" << x[i] << ") is " << got[i] << ", should be " << expected[i] << " on " << isa_name(kernel->isa);
      }
    }
  }
}

}  // namespace
}  // namespace perigee
