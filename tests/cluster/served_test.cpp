// Asynchronous policies: outer steps against the formulas of their papers, written out in plain doubles; what the server's desk takes; what
// is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "cluster/exchange/outer_step.h"
#include "cluster/rounds/server/desk.h"
#include "tests/cluster/replica/policy_text.h"

namespace perigee {
namespace {

constexpr int kArrivals = 24;
double change(int arrival) { return 0.01 * std::sin(0.7 * arrival) + 0.002; }
double staleness(int arrival) { return arrival * 5 % 7; }
double rate_at(int arrival) { return 0.1 / (1 + 0.1 * arrival); }

// `next(arrival, x, change)` is the paper's step; the policy's is followed in float64 from the same start.
void expect_trajectory(const std::string& policy, const std::function<double(int, double, double)>& next) {
  ParamWindow window;
  window.elements = 1;
  OuterStep step(policy_of(policy).outer, Dtype::f64, std::vector<ParamWindow>{window}, 1);
  double global = 0.5, expected = 0.5;
  for (int i = 0; i < kArrivals; ++i) {
    double mean = global - change(i);
    expected = next(i, expected, change(i));
    step.run({.workers = 4, .round = static_cast<double>(i), .learning_rate = rate_at(i), .staleness = staleness(i)},
             reinterpret_cast<const std::byte*>(&global), reinterpret_cast<std::byte*>(&mean));
    global = mean;
    ASSERT_NEAR(global, expected, 1e-13) << policy << " arrival " << i;
  }
}

TEST(ServedStep, EasgdMovesTheCentreByItsShareOfTheDistance) {
  expect_trajectory(R"("easgd")", [](int, double x, double d) { return x + 0.9 / 4 * -d; });
  expect_trajectory(R"({"type": "easgd", "rate": 0.1})", [](int, double x, double d) { return x - 0.1 * d; });
}

TEST(ServedStep, DownpourIsAdagrad) {
  expect_trajectory(R"({"type": "downpour", "rate": 0.02})", [s = 0.0](int i, double x, double d) mutable {
    const double g = d / rate_at(i);
    s += g * g;
    return x - 0.02 * g / (std::sqrt(s) + 1e-8);
  });
}

TEST(ServedStep, StalenessAwareDividesByTheStaleness) {
  expect_trajectory(R"("staleness_aware")", [](int i, double x, double d) { return x - d / (staleness(i) > 0 ? staleness(i) : 1); });
}

TEST(ServedStep, FasgdDividesByTheSpreadOfGradientsAndTheStaleness) {
  expect_trajectory(R"({"type": "fasgd", "rate": 0.01, "gamma": 0.8, "beta": 0.7, "epsilon": 0.001})",
                    [n = 0.0, b = 0.0, v = 1.0](int i, double x, double d) mutable {
                      const double g = d / rate_at(i);
                      n = 0.8 * n + 0.2 * g * g;
                      b = 0.8 * b + 0.2 * g;
                      v = 0.7 * v + 0.3 * std::sqrt(n - b * b + 0.001);
                      return x - 0.01 / (v * std::max(1.0, staleness(i))) * g;
                    });
}

// Liu et al. 2024, algorithm 4, with N = 3 and c = 0.2.
TEST(ServedStep, AsyncLocalDelaysItsNesterovMomentum) {
  expect_trajectory(R"({"type": "async_local", "delay": 3, "spread": 0.2})", [m = 0.0, buffer = 0.0](int t, double x, double d) mutable {
    const double eps = 0.7, beta = 0.9, c = 0.2;
    const int n = 3;
    buffer += d;
    if ((t + 1) % n != 0) return x - eps * (c * beta * m + d / n);
    m = beta * m + buffer / n;
    buffer = 0;
    return x - eps * ((1 - c * n + c) * beta * m + d / n);
  });
}

TEST(ServedPolicy, SaysWhatMakesNoSenseWithAServer) {
  EXPECT_TRUE(policy_of(R"("easgd")").served && policy_of(R"("easgd")").elastic);
  EXPECT_EQ(policy_of(R"("downpour")").max_staleness, 64);
  EXPECT_NE(refusal_of(R"({"type": "downpour", "sync_until": 0.5})").find("sync_until"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"type": "downpour", "quorum": 0.5})").find("no worker waits"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"type": "easgd", "codec": "int8"})").find("elastic"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"type": "easgd", "merge_every": 2})").find("merge_every"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"type": "periodic", "merge_every": 2})").find("needs a server"), std::string::npos);
}

// ---- the desk ----

ExchangeLayout layout() { return {.sums = 32, .maxima = 2, .coded = 64, .payload_bound = 40}; }  // beside: 64 + 16 bytes

Push push_of(uint64_t request) {
  return {
      .request = request, .bytes = 100, .payload = 20, .examples = 5, .steps = 2, .examples_per_step = 8, .ranges = {{0, 0, 2}, {0, 2, 3}}};
}

void send_body(ServerDesk& desk, WorkerId from, uint64_t request, std::byte fill) {
  const std::vector<std::byte> body(100, fill);
  for (size_t at : {size_t{0}, size_t{60}}) {
    Image image{.request = request, .offset = at, .total = 100, .round = 3, .hash = 1};
    ASSERT_EQ(desk.on_image(from, from, image, std::span(body).subspan(at, at == 0 ? 60 : 40)), ServerDesk::Verdict::taken);
  }
}

TEST(ServerDesk, HandsOutInTheOrderInWhichPushesAreComplete) {
  ServerDesk desk;
  desk.reset(layout());
  EXPECT_EQ(desk.on_push(1, 1, push_of(7)), ServerDesk::Verdict::taken);
  EXPECT_EQ(desk.on_push(2, 2, push_of(9)), ServerDesk::Verdict::taken);
  send_body(desk, 2, 9, std::byte{2});
  send_body(desk, 1, 7, std::byte{1});
  EXPECT_EQ(desk.next()->from, 2u);
  const std::optional<Arrival> second = desk.next();
  EXPECT_EQ(second->from, 1u);
  EXPECT_EQ(second->body, std::vector<std::byte>(100, std::byte{1}));
  EXPECT_FALSE(desk.next());
}

TEST(ServerDesk, TakesOnePushOfEachWorkerOnce) {
  ServerDesk desk;
  desk.reset(layout());
  EXPECT_EQ(desk.on_push(1, 1, push_of(7)), ServerDesk::Verdict::taken);
  EXPECT_EQ(desk.on_push(1, 1, push_of(7)), ServerDesk::Verdict::stale);    // repeated by the network
  EXPECT_EQ(desk.on_push(1, 1, push_of(8)), ServerDesk::Verdict::refused);  // before the answer to the first
  send_body(desk, 1, 7, std::byte{1});
  EXPECT_TRUE(desk.next());
  desk.answered(1);
  EXPECT_EQ(desk.on_push(1, 1, push_of(8)), ServerDesk::Verdict::taken);
}

TEST(ServerDesk, RefusesWhatDoesNotFitTogether) {
  const auto verdict = [](const std::function<void(Push&)>& spoil) {
    ServerDesk desk;
    desk.reset(layout());
    Push push = push_of(1);
    spoil(push);
    return desk.on_push(1, 1, std::move(push));
  };
  EXPECT_EQ(verdict([](Push&) {}), ServerDesk::Verdict::taken);
  for (const auto& spoil : std::vector<std::function<void(Push&)>>{
           [](Push& p) { p.bytes = 101; }, [](Push& p) { p.payload = 41, p.bytes = 121; }, [](Push& p) { p.payload = 0, p.bytes = 80; },
           [](Push& p) { p.examples = 6; }, [](Push& p) { p.steps = 3; },
           [](Push& p) {
             p.ranges[1] = {0, 1, 3};
           },
           [](Push& p) { p.ranges[1].count = -3, p.examples = -1; }, [](Push& p) { p.base = -2; }, [](Push& p) { p.idle = true; },
           [](Push& p) { p.isa.assign(100, 'x'); }, [](Push& p) { p.threads = 0; }})
    EXPECT_EQ(verdict(spoil), ServerDesk::Verdict::refused);
}

TEST(ServerDesk, AddsWhatLiesBesidePayloads) {
  const ExchangeLayout l = layout();
  std::vector<std::byte> row(l.bytes()), one(80), two(80);
  const auto put = [](std::vector<std::byte>& to, float sum, int64_t maximum) {
    std::memcpy(to.data(), &sum, 4);
    std::memcpy(to.data() + 64, &maximum, 8);
  };
  put(one, 1.5f, 9), put(two, 2.25f, 4);
  add_beside(l, row, one, true);
  add_beside(l, row, two, false);
  float sum = 0;
  int64_t maximum = 0;
  std::memcpy(&sum, row.data() + 64, 4);
  std::memcpy(&maximum, row.data() + 128, 8);
  EXPECT_EQ(sum, 3.75f);
  EXPECT_EQ(maximum, 9);
}

}  // namespace
}  // namespace perigee
