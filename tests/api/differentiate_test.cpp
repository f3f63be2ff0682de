// Recorded, differentiated and compiled functions of C and C++ programs, against finite differences in float64 and formulas by hand.
#include <atomic>
#include <cmath>
#include <thread>

#include "tests/api/support.h"

namespace {

using Numbers = std::vector<double>;
using Sizes = std::vector<int64_t>;

Numbers numbers(const pg::tensor& x) { return x.to_vector<double>(); }

// d f(x) / d x by central differences.
template <class F>
Numbers differences(F f, const pg::tensor& x) {
  constexpr double kStep = 1e-6;
  Numbers result;
  const pg::tensor moved = x.clone();
  for (double& each : moved.data<double>()) {
    const double before = each;
    each = before + kStep;
    const double up = f(moved).item();
    each = before - kStep;
    result.push_back((up - f(moved).item()) / (2 * kStep));
    each = before;
  }
  return result;
}

template <class F>
void expect_gradient(F f, const pg::tensor& x, double tolerance = 1e-7) {
  const pg::tensor gradient = pg::grad(f)(x);
  EXPECT_EQ(gradient.shape(), x.shape());
  const Numbers expected = differences(f, x), got = numbers(gradient);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << i;
}

TEST(Differentiate, AgreesWithFiniteDifferences) {
  pg::seed(11);
  const pg::tensor x = pg::randn({3, 4}, 0, 1, pg::f64), w = pg::randn({4, 2}, 0, 1, pg::f64), classes({1, 0, 1}, pg::i64);
  expect_gradient([](const pg::tensor& a) { return (a * a).sum(); }, x);
  expect_gradient([&](const pg::tensor& a) { return matmul(a, w).cross_entropy(classes).mean(); }, x);
  expect_gradient([&](const pg::tensor& a) { return (pg::tanh(matmul(a, w)) + 1).norm(); }, x);
  expect_gradient([](const pg::tensor& a) { return (a[{pg::slice(0, 2), -1}] * a[{1, pg::slice(0, 4, 2)}]).sum() + a[0].max() / 2; }, x);
  expect_gradient([](const pg::tensor& a) { return pg::concatenate({a.T(), pg::exp(a.T())}).logsumexp(); }, x);
  expect_gradient([](const pg::tensor& a) { return (a.sort().first * pg::arange(4, pg::f64)).sum() + matmul(a, a.T()).det(); }, x, 1e-6);
  expect_gradient([](const pg::tensor& a) { return pg::where(a.gt(0), a, -3 * a).mean(); }, x);
  expect_gradient([&](const pg::tensor& a) { return pg::einsum("ij,jk->k", {a, w}).var(); }, x);
  expect_gradient([](const pg::tensor& a) { return a.take(pg::tensor({2, 0, 2}, pg::i64)).std(); }, x);
  expect_gradient(
      [](const pg::tensor& a) {
        return a.reshape({1, 1, 3, 4}).conv2d(pg::ones({2, 1, 2, 2}, pg::f64), {}, {.padding = 1}).softmax(1).max(1).sum();
      },
      x);
}

TEST(Differentiate, IsZeroWhereARootHasNoSlope) {
  const pg::tensor zero = pg::zeros({4});
  const auto norm = pg::grad([](const pg::tensor& a) { return a.norm(); });
  const auto deviation = pg::grad([](const pg::tensor& a) { return a.std(); });
  EXPECT_EQ(norm(zero).to_vector<float>(), std::vector<float>(4));
  EXPECT_EQ(deviation(zero).to_vector<float>(), std::vector<float>(4));
}

// The sizes of two vectors of tensors belong to what was recorded.
TEST(Compile, TellsVectorsApartBySize) {
  const auto f = pg::compile(
      [](const std::vector<pg::tensor>& a, const std::vector<pg::tensor>& b) { return a.front() * 10 + b.back() * (a.size() + 1.0); });
  const pg::tensor one = pg::full({2}, 1), two = pg::full({2}, 2), four = pg::full({2}, 4);
  EXPECT_EQ(f(std::vector{one, two}, std::vector{four}).to_vector<float>(), std::vector<float>(2, 22));
  EXPECT_EQ(f(std::vector{one}, std::vector{two, four}).to_vector<float>(), std::vector<float>(2, 18));
}

TEST(Tensor, EmptyRangesStayEmpty) {
  const pg::tensor x = pg::from(std::vector{1.f, 2.f, 3.f}, {3});
  EXPECT_EQ((x[{pg::slice(0, -4)}]).numel(), 0);
  EXPECT_EQ((x[{pg::slice(0, 3, -1)}]).numel(), 0);
  EXPECT_EQ(x.narrow(0, -2, 2).to_vector<float>(), (std::vector<float>{2, 3}));
}

TEST(Differentiate, AgainAndInSeveralArguments) {
  const auto cube = [](const pg::tensor& x) { return (x * x * x).sum(); };
  const pg::tensor x({1, -2, 3}, pg::f64);
  EXPECT_EQ(numbers(pg::grad([&](const pg::tensor& a) { return pg::grad(cube)(a).sum(); })(x)), Numbers({6, -12, 18}));
  EXPECT_EQ(numbers(pg::jacobian([](const pg::tensor& a) { return a * a; })(x)), Numbers({2, 0, 0, 0, -4, 0, 0, 0, 6}));
  // The same tensor captured from outside is a constant to the function.
  const auto by_part = pg::compile([](const pg::tensor& a) { return pg::grad([&](const pg::tensor& own) { return (own * a).sum(); })(a); });
  EXPECT_EQ(numbers(by_part(x)), numbers(x));
  const auto f = [](const pg::tensor& a, const pg::tensor& b, const pg::tensor& c) { return std::tuple((a * b + c * c).sum(), a + b); };
  const auto [value, by_a, by_c, more] = pg::value_and_grad<0, 2>(f)(x, x, x);
  EXPECT_EQ(value.item(), 2 * 14);
  EXPECT_EQ(numbers(by_a), numbers(x));
  EXPECT_EQ(numbers(by_c), numbers(2 * x));
  EXPECT_EQ(numbers(more), numbers(x + x));
  const auto [ga, gb] = pg::grad<0, 1>(f)(x, 2 * x, x);
  EXPECT_EQ(numbers(ga), numbers(2 * x));
  EXPECT_EQ(numbers(gb), numbers(x));
}

struct line {
  pg::tensor w, b;
  auto members() { return std::tie(w, b); }
};

// A training loop of one's own on a line: each step against the update by hand.
TEST(Differentiate, TrainsAStructOfParameters) {
  pg::seed(2);
  const pg::tensor x = pg::randn({16, 2}, 0, 1, pg::f64), y = (matmul(x, pg::tensor({3, -2}, pg::f64)) + 1).unsqueeze(1);
  const auto loss = [&](const line& p) { return pg::square(matmul(x, p.w) + p.b - y).mean(); };
  const auto step = pg::compile(
      [&](const line& p, const pg::tensor& rate) {
        const auto [value, g] = pg::value_and_grad(loss)(p);
        return std::tuple(value, line{p.w - rate * g.w, p.b - rate * g.b});
      },
      {.donate = {0}});
  line p{pg::zeros({2, 1}, pg::f64), pg::zeros({1}, pg::f64)};
  double w0 = 0, w1 = 0, b = 0;
  const auto at = x.data<double>(), want = y.data<double>();
  for (int i = 0; i < 200; ++i) {
    const double rate = i < 100 ? 0.2 : 0.1;
    double value = 0, g0 = 0, g1 = 0, gb = 0;
    for (size_t n = 0; n < 16; ++n) {
      const double off = at[2 * n] * w0 + at[2 * n + 1] * w1 + b - want[n];
      value += off * off / 16, g0 += 2 * off * at[2 * n] / 16, g1 += 2 * off * at[2 * n + 1] / 16, gb += 2 * off / 16;
    }
    w0 -= rate * g0, w1 -= rate * g1, b -= rate * gb;
    pg::tensor said;
    std::tie(said, p) = step(p, rate);
    EXPECT_NEAR(said.item(), value, 1e-12);
  }
  EXPECT_NEAR(p.w[0].item(), w0, 1e-12);
  EXPECT_NEAR(p.w[1].item(), w1, 1e-12);
  EXPECT_NEAR(p.b.item(), b, 1e-12);
  EXPECT_NEAR(w0, 3, 1e-3);
}

TEST(Compile, RunsOncePerShapeAndReadsTensorsFromOutsideAnew) {
  int recorded = 0;
  const pg::tensor outside = pg::ones({2});
  const auto f = pg::compile([&](const std::vector<pg::tensor>& all, const pg::tensor& scale) {
    ++recorded;
    return std::map<std::string, pg::tensor>{{"sum", (all[0] + all[1]) * scale + outside}, {"first", all[0]}};
  });
  const pg::tensor a({1, 2}), b({10, 20});
  EXPECT_EQ(numbers(f(std::vector{a, b}, 2).at("sum")), Numbers({23, 45}));
  outside.fill(5);
  const auto again = f(std::vector{a, b}, 3);
  EXPECT_EQ(numbers(again.at("sum")), Numbers({38, 71}));
  EXPECT_EQ(numbers(again.at("first")), Numbers({1, 2}));
  EXPECT_EQ(recorded, 1);
  const pg::tensor wide({{1, 2}, {3, 4}});
  EXPECT_EQ(f(std::vector{wide, b}, 1).at("sum").shape(), Sizes({2, 2}));
  EXPECT_EQ(f(std::vector{a.to(pg::f64), b}, 1).at("sum").dtype(), PERIGEE_F64);
  EXPECT_EQ(recorded, 3);
}

TEST(Compile, AnswersSeveralThreads) {
  const auto f = pg::compile([](const pg::tensor& x, const pg::tensor& w) { return pg::relu(matmul(matmul(x, w) / 64, w)).sum(1); });
  const pg::tensor w = pg::ones({64, 64});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i)
        for (const double each : numbers(f(pg::full({static_cast<int64_t>(128 + t % 2), 64}, t), w))) wrong += each != 4096.0 * t;
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Compile, SaysWhatCannotBeRecorded) {
  const pg::tensor x({1, 2, 3}), whole({1, 2, 3}, pg::i64);
  const auto of = [](auto f, const pg::tensor& at, perigee_status status) { return failure([&] { pg::grad(f)(at); }, status); };
  EXPECT_NE(of([](const pg::tensor& a) { return a * a; }, x, PERIGEE_MODEL).find("sum or a mean"), std::string::npos);
  EXPECT_NE(of([](const pg::tensor& a) { return (a * 0.5).sum(); }, whole, PERIGEE_MODEL).find("whole numbers"), std::string::npos);
  EXPECT_NE(of([](const pg::tensor& a) { return a.nonzero().sum(); }, x, PERIGEE_USAGE).find("nonzero"), std::string::npos);
  EXPECT_NE(of([](const pg::tensor& a) { return (a + pg::rand({3})).sum(); }, x, PERIGEE_USAGE).find("draw"), std::string::npos);
  EXPECT_NE(of(
                [&](const pg::tensor& a) {
                  x.add_(1);
                  return a.sum();
                },
                x, PERIGEE_USAGE)
                .find("once"),
            std::string::npos);
  EXPECT_NE(of([](const pg::tensor& a) { return pg::tensor(a.sum().item()); }, x, PERIGEE_USAGE).find("recorded"), std::string::npos);
  EXPECT_NE(of([](const pg::tensor&) { return pg::ones({1}); }, x, PERIGEE_USAGE).find("depend"), std::string::npos);
  pg::tensor kept;
  pg::compile([&](const pg::tensor& a) {
    kept = a;
    return a + 1;
  })(x);
  EXPECT_NE(failure([&] { kept + 1; }, PERIGEE_USAGE).find("recorded already"), std::string::npos);
  pg::rand({3});  // what failed has not left the thread in a recording
}

// The C ABI by itself: what the header's comments promise.
TEST(Compile, FromC) {
  perigee_context* context = nullptr;
  ASSERT_EQ(perigee_context_create(nullptr, &context), PERIGEE_OK);
  const double two[] = {2, 3};
  const int64_t shape[] = {2};
  perigee_tensor *x = nullptr, *a = nullptr, *square = nullptr, *sum = nullptr, *g = nullptr;
  ASSERT_EQ(perigee_tensor_create(context, PERIGEE_F64, 1, shape, two, sizeof two, &x), PERIGEE_OK);
  perigee_trace* trace = nullptr;
  perigee_function* function = nullptr;
  ASSERT_EQ(perigee_trace_begin(context, &trace), PERIGEE_OK);
  ASSERT_EQ(perigee_trace_argument(trace, x, &a), PERIGEE_OK);
  perigee_tensor* both[] = {a, a};
  ASSERT_EQ(perigee_op(context, "mul", both, 2, nullptr, &square, 1), PERIGEE_OK);
  ASSERT_EQ(perigee_op(context, "reduce_sum", &square, 1, "{\"axes\": [0]}", &sum, 1), PERIGEE_OK);
  ASSERT_EQ(perigee_gradients(sum, &a, 1, &g), PERIGEE_OK);
  perigee_tensor* results[] = {sum, g};
  ASSERT_EQ(perigee_trace_end(trace, results, 2, nullptr, &function), PERIGEE_OK);
  perigee_function* again = nullptr;
  EXPECT_EQ(perigee_trace_end(trace, results, 2, nullptr, &again), PERIGEE_USAGE);
  EXPECT_NE(std::string(perigee_trace_message(trace)), "");
  for (perigee_tensor* each : {a, square, sum, g}) perigee_tensor_free(each);
  perigee_trace_free(trace);
  perigee_context_free(context);
  perigee_tensor* made[2] = {};
  EXPECT_EQ(perigee_function_call(function, &x, 1, made, 1), PERIGEE_USAGE);
  EXPECT_EQ(perigee_function_call(function, &x, 0, made, 2), PERIGEE_USAGE);
  ASSERT_EQ(perigee_function_call(function, &x, 1, made, 2), PERIGEE_OK);
  double value = 0, gradient[2] = {};
  EXPECT_EQ(perigee_tensor_read(made[0], &value, sizeof value), PERIGEE_OK);
  EXPECT_EQ(perigee_tensor_read(made[1], gradient, sizeof gradient), PERIGEE_OK);
  EXPECT_EQ(value, 13);
  EXPECT_EQ(Numbers(gradient, gradient + 2), Numbers({4, 6}));
  for (perigee_tensor* each : {x, made[0], made[1]}) perigee_tensor_free(each);
  perigee_function_free(function);
}

}  // namespace
