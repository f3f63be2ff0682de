// L-BFGS and conjugate gradients against SciPy's, function by function; what they do where a function is not kind.
#include "src/optim/minimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "src/optim/optimizer.h"
#include "tests/optim/minimizer_reference.h"

namespace perigee {
namespace {

using Vector = std::vector<double>;
using Function = double (*)(const Vector& x, double* slope);

double rosenbrock(const Vector& x, double* slope) {
  double sum = 0;
  std::fill_n(slope, x.size(), 0.0);
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    const double bend = x[i + 1] - x[i] * x[i], rest = 1 - x[i];
    sum += 100 * bend * bend + rest * rest;
    slope[i] += -400 * x[i] * bend - 2 * rest;
    slope[i + 1] += 200 * bend;
  }
  return sum;
}

double logistic(const Vector& w, double* slope) {
  double sum = 0;
  for (size_t i = 0; i < w.size(); ++i) sum += 0.005 * w[i] * w[i], slope[i] = 0.01 * w[i];
  for (int n = 0; n < 60; ++n) {
    double x[5], z = 0;
    for (int i = 0; i < 5; ++i) x[i] = std::sin(1.7 * n + 0.9 * i * (n % 7)), z += x[i] * w[static_cast<size_t>(i)];
    const double y = std::sin(n) + 0.3 * x[0] > 0 ? 1 : -1;
    sum += (std::max(0.0, -y * z) + std::log1p(std::exp(-std::fabs(z)))) / 60;
    for (int i = 0; i < 5; ++i) slope[i] += -y / (1 + std::exp(y * z)) * x[i] / 60;
  }
  return sum;
}

struct Search {
  explicit Search(const char* rule, Vector from, Dtype dtype = Dtype::f64) : x(std::move(from)) {
    ParamWindow window;
    window.name = "w", window.elements = static_cast<int64_t>(x.size()), window.shape = Shape{window.elements};
    optimizer = std::make_unique<Optimizer>(OptimizerOptions{.optimizer = Json::parse(rule, "rule")}, std::vector{window}, "job", dtype);
    minimizer = std::make_unique<Minimizer>(*optimizer->minimizer(), std::vector{window}, window.elements, dtype);
    for (size_t i = 0; i < optimizer->slots().size(); ++i) slots.push_back(Vector(x.size()));
    for (Vector& slot : slots) pointers.push_back(reinterpret_cast<std::byte*>(slot.data()));
  }
  Minimizer::Result step(Function f) {
    const Minimizer::Result result = minimizer->iterate(reinterpret_cast<std::byte*>(x.data()), pointers.data(), true,
                                                        [&](std::byte* slope) { return f(x, reinterpret_cast<double*>(slope)); });
    evaluations += result.evaluations;
    return result;
  }

  Vector x;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Minimizer> minimizer;
  std::vector<Vector> slots;
  std::vector<std::byte*> pointers;
  int evaluations = 0;
};

void expect_path(const char* rule, Function f, Vector from, std::span<const reference::PathPoint> path) {
  Search search(rule, std::move(from));
  Vector slope(search.x.size());
  for (size_t i = 0; i < path.size(); ++i) {
    if (i > 0 && path[i - 1].value - path[i].value < 1e-10) return;  // what is left is rounding
    search.step(f);
    EXPECT_EQ(search.evaluations, path[i].evaluations) << rule << " iteration " << i + 1;
    EXPECT_NEAR(f(search.x, slope.data()), path[i].value, 1e-6 * std::max(1.0, path[i].value)) << rule << " iteration " << i + 1;
    if (testing::Test::HasFailure()) return;
  }
}

Vector start(int n) {
  Vector x;
  for (int i = 0; i < n; ++i) x.push_back(i % 2 ? 1 : -1.2);
  return x;
}

TEST(Minimizer, LbfgsTakesTheStepsOfSciPy) {
  expect_path(R"({"type": "lbfgs"})", rosenbrock, start(2), reference::kLbfgsRosen2);
  expect_path(R"({"type": "lbfgs"})", rosenbrock, start(10), reference::kLbfgsRosen10);
  expect_path(R"({"type": "lbfgs"})", logistic, Vector(5), reference::kLbfgsLogistic);
}

TEST(Minimizer, ConjugateGradientsTakeTheStepsOfSciPy) {
  expect_path(R"({"type": "cg"})", rosenbrock, start(2), reference::kCgRosen2);
  expect_path(R"({"type": "cg"})", rosenbrock, start(10), reference::kCgRosen10);
  expect_path(R"({"type": "cg"})", logistic, Vector(5), reference::kCgLogistic);
}

TEST(Minimizer, BackTrackingFindsTheMinimumToo) {
  for (const char* rule : {R"({"type": "lbfgs", "line_search": "backtracking"})", R"({"type": "lbfgs", "history": 1})"}) {
    Search search(rule, start(4));
    for (int i = 0; i < 400; ++i) search.step(rosenbrock);
    for (const double x : search.x) EXPECT_NEAR(x, 1, 1e-5) << rule;
  }
}

// Infinity beyond x = 2, and a slope that points there.
double walled(const Vector& x, double* slope) {
  slope[0] = x[0] > 2 ? std::numeric_limits<double>::quiet_NaN() : -1 + 1 / ((2 - x[0]) * (2 - x[0]) + 1e-3) * 1e-2;
  return x[0] > 2 ? std::numeric_limits<double>::infinity() : -x[0] - 1e-2 * 31.6 * std::atan((x[0] - 2) * 31.6) * -1;
}

TEST(Minimizer, ComesBackFromWhereTheFunctionIsNotFinite) {
  for (const char* rule : {R"({"type": "lbfgs"})", R"({"type": "cg"})", R"({"type": "lbfgs", "line_search": "backtracking"})"}) {
    Search search(rule, Vector{1.5});
    Vector slope(1);
    const double before = walled(search.x, slope.data());
    for (int i = 0; i < 5; ++i) search.step(walled);
    EXPECT_LE(search.x[0], 2) << rule;
    EXPECT_LT(walled(search.x, slope.data()), before) << rule;
  }
}

TEST(Minimizer, StaysWhereNothingIsBetter) {
  Search search(R"({"type": "lbfgs"})", Vector(10, 1.0));
  const Minimizer::Result result = search.step(rosenbrock);
  EXPECT_EQ(result.step, 0);
  EXPECT_EQ(result.evaluations, 1);
  EXPECT_EQ(search.x, Vector(10, 1.0));
}

TEST(Minimizer, GoesOnFromItsStateAndSlots) {
  for (const char* rule : {R"({"type": "lbfgs", "history": 3})", R"({"type": "cg"})"}) {
    Search whole(rule, start(6)), first(rule, start(6));
    for (int i = 0; i < 5; ++i) whole.step(rosenbrock), first.step(rosenbrock);
    Search second(rule, first.x);
    for (size_t i = 0; i < second.slots.size(); ++i) std::copy(first.slots[i].begin(), first.slots[i].end(), second.slots[i].begin());
    const Json state = first.minimizer->state();
    second.minimizer->restore(Config(state, "state"));
    for (int i = 0; i < 5; ++i) whole.step(rosenbrock), second.step(rosenbrock);
    EXPECT_EQ(whole.x, second.x) << rule;
  }
}

TEST(Minimizer, RefusesAStateThatIsNotItsOwn) {
  Search search(R"({"type": "lbfgs", "history": 3})", start(6));
  const Json state = Json::parse(R"({"pairs": 4, "newest": 0})", "state");
  EXPECT_THROW(search.minimizer->restore(Config(state, "state")), Error);
}

TEST(Minimizer, CurvatureIsAboveDecrease) {
  try {
    Search(R"({"type": "lbfgs", "decrease": 0.4, "curvature": 0.3})", start(2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'curvature' is not above 'decrease'"), std::string::npos) << error.what();
  }
}

// A search that fails forgets the history before it goes on; given up, it has forgotten nothing.
TEST(Minimizer, AnIterationThatIsGivenUpLeavesItsState) {
  struct GivenUp {};
  const MinimizerOptions options{.history = 3, .line = {.decrease = 1e-3, .evaluations = 5}};
  Minimizer minimizer(options, {{.name = "p", .elements = 2, .shape = {2}}}, 2, Dtype::f64);
  double p[2] = {3, -2}, slots[6][2] = {};
  std::byte* pointers[6];
  for (size_t s = 0; s < 6; ++s) pointers[s] = reinterpret_cast<std::byte*>(slots[s]);
  auto* const at = reinterpret_cast<std::byte*>(p);
  const auto bowl = [&](std::byte* gradient) {
    auto* const g = reinterpret_cast<double*>(gradient);
    g[0] = p[0], g[1] = 20 * p[1];
    return 0.5 * p[0] * p[0] + 10 * p[1] * p[1];
  };
  for (int i = 0; i < 3; ++i) minimizer.iterate(at, pointers, i > 0, bowl);
  const std::string before = minimizer.state().dump();
  const double here[2] = {p[0], p[1]};
  int calls = 0;
  const auto cliff = [&](std::byte* gradient) {
    if (++calls > options.line.evaluations + 2) throw GivenUp();
    bowl(gradient);
    return std::numeric_limits<double>::infinity();
  };
  EXPECT_THROW(minimizer.iterate(at, pointers, true, cliff), GivenUp);
  EXPECT_EQ(minimizer.state().dump(), before);
  EXPECT_TRUE(p[0] == here[0] && p[1] == here[1]);
  EXPECT_THROW(minimizer.iterate(at, pointers, true, bowl, [] { throw GivenUp(); }), GivenUp);
  EXPECT_EQ(minimizer.state().dump(), before);
  EXPECT_EQ(minimizer.iterate(at, pointers, true, bowl).evaluations, 1);  // the value is known still
}

}  // namespace
}  // namespace perigee
