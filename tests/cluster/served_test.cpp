// Asynchronous policies: outer steps against the formulas of their papers, written out in plain doubles; what the server's desk takes; what
// is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "cluster/exchange/outer_step.h"
#include "cluster/rounds/server/desk.h"
#include "cluster/rounds/server/kept_pushes.h"
#include "cluster/rounds/server/redo.h"
#include "tests/cluster/replica/policy_text.h"

namespace perigee {
namespace {

constexpr int kArrivals = 24;
double change(int arrival) { return 0.01 * std::sin(0.7 * arrival) + 0.002; }
double staleness(int arrival) { return arrival * 5 % 7; }
double rate_at(int arrival) { return 0.1 / (1 + 0.1 * arrival); }

// `next(arrival, x, change)` is the paper's step; the policy's is followed in float64 from the same start.
void expect_served(const std::string& policy, const std::function<double(int, double, double)>& next) {
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
  expect_served(R"("easgd")", [](int, double x, double d) { return x + 0.9 / 4 * -d; });
  expect_served(R"({"type": "easgd", "rate": 0.1})", [](int, double x, double d) { return x - 0.1 * d; });
}

TEST(ServedStep, DownpourIsAdagrad) {
  expect_served(R"({"type": "downpour", "rate": 0.02})", [s = 0.0](int i, double x, double d) mutable {
    const double g = d / rate_at(i);
    s += g * g;
    return x - 0.02 * g / (std::sqrt(s) + 1e-8);
  });
}

TEST(ServedStep, StalenessAwareDividesByTheStaleness) {
  expect_served(R"("staleness_aware")", [](int i, double x, double d) { return x - d / (staleness(i) > 0 ? staleness(i) : 1); });
}

TEST(ServedStep, FasgdDividesByTheSpreadOfGradientsAndTheStaleness) {
  expect_served(R"({"type": "fasgd", "rate": 0.01, "gamma": 0.8, "beta": 0.7, "epsilon": 0.001})",
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
  expect_served(R"({"type": "async_local", "delay": 3, "spread": 0.2})", [m = 0.0, buffer = 0.0](int t, double x, double d) mutable {
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

// ---- what a worker keeps ----

SharedBytes bytes_of(size_t count) { return std::make_shared<const std::vector<std::byte>>(count, std::byte{1}); }

Push push_at(uint64_t request, int64_t begin) {
  Push push = push_of(request);
  push.ranges = {{0, begin, 2}, {0, begin + 2, 3}};
  return push;
}

std::vector<Range> range_at(int64_t begin) { return {{0, begin, 5}}; }

TEST(KeptPushes, KeepsWhatIsInNoImage) {
  KeptPushes kept;
  for (uint64_t i = 1; i <= 4; ++i) kept.add(push_at(i, static_cast<int64_t>(10 * i)), bytes_of(100));
  kept.answered(1, true, 5);
  kept.answered(2, false, 6);  // too stale: it is in no result
  kept.answered(3, true, 7);
  EXPECT_EQ(kept.find(range_at(20)), nullptr);
  EXPECT_EQ(kept.find(range_at(30))->push.request, 3u);
  kept.forget_up_to(5);
  EXPECT_EQ(kept.find(range_at(10)), nullptr);
  EXPECT_NE(kept.find(range_at(40)), nullptr) << "it has no answer yet";
  kept.settle(8);  // it is in round 8 at most
  kept.forget_up_to(8);
  EXPECT_EQ(kept.size(), 0u);
  EXPECT_EQ(kept.complete_from(), 0);
}

TEST(KeptPushes, ForgetsWhatBecameVoid) {
  KeptPushes kept;
  kept.add(push_at(1, 10), bytes_of(100));
  kept.add(push_at(2, 20), bytes_of(100));
  kept.answered(1, true, 5);
  kept.answered(2, true, 6);
  kept.settle(5);
  EXPECT_NE(kept.find(range_at(10)), nullptr);
  EXPECT_EQ(kept.find(range_at(20)), nullptr);
}

TEST(KeptPushes, TheSameWorkPushedAgainIsKeptOnce) {
  KeptPushes kept;
  kept.add(push_at(1, 10), bytes_of(100));
  kept.add(push_at(2, 10), bytes_of(100));
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept.find(range_at(10))->push.request, 2u);
}

TEST(KeptPushes, IsBoundedAndSaysFromWhereOnItIsComplete) {
  KeptPushes kept({.most_bytes = 1000});
  for (uint64_t i = 1; i <= 20; ++i) {
    kept.add(push_at(i, static_cast<int64_t>(10 * i)), bytes_of(200));
    kept.answered(i, true, static_cast<int64_t>(i));
  }
  EXPECT_EQ(kept.size(), 5u);
  EXPECT_EQ(kept.complete_from(), 16);
  KeptPushes large({.most_bytes = 1000});  // each is larger than all that it may have
  for (uint64_t i = 1; i <= 20; ++i) large.add(push_at(i, static_cast<int64_t>(10 * i)), bytes_of(2000));
  EXPECT_EQ(large.size(), 3u);
}

// ---- rounds that are made again ----

RedoRound redo_round(int64_t round, std::vector<WorkerId> of) {
  RedoRound plan{.round = round, .hash = 1, .workers = 2, .examples_after = 5, .shares = {}};
  for (const WorkerId id : of) plan.shares.push_back({.id = id, .examples = 5, .ranges = range_at(100 * round + 10 * id)});
  return plan;
}

RedoQueue::Verdict resend(RedoQueue& redo, const ServerDesk& desk, WorkerId from, uint64_t request, int64_t begin, bool kept = true) {
  return redo.on_resent(from, {.request = request, .kept = kept, .push = push_at(99, begin)}, desk);
}

RedoQueue::Verdict send_bytes(RedoQueue& redo, WorkerId from, uint64_t request) {
  const std::vector<std::byte> body(100, std::byte{7});
  Image image{.request = request, .offset = 0, .total = 100, .round = 3, .hash = 1};
  return redo.on_image(from, from, image, body);
}

TEST(RedoQueue, GathersEachRoundInItsOrder) {
  ServerDesk desk;
  desk.reset(layout());
  RedoQueue redo;
  ASSERT_TRUE(redo.add(3, {.target = 5, .rounds = {redo_round(4, {2, 1}), redo_round(5, {2})}, .settings = {}}));
  std::vector<RedoQueue::Ask> asks;
  while (const auto ask = redo.next_ask()) asks.push_back(*ask), redo.asked(*ask, ask->of, asks.size());
  ASSERT_EQ(asks.size(), 2u) << "of each worker one at a time";
  EXPECT_EQ(resend(redo, desk, 1, 2, 410), RedoQueue::Verdict::taken);
  EXPECT_EQ(send_bytes(redo, 1, 2), RedoQueue::Verdict::taken);
  EXPECT_EQ(redo.ready(), nullptr);
  EXPECT_EQ(resend(redo, desk, 2, 1, 420), RedoQueue::Verdict::taken);
  EXPECT_EQ(send_bytes(redo, 2, 1), RedoQueue::Verdict::taken);
  ASSERT_NE(redo.ready(), nullptr);
  const std::vector<Arrival> all = redo.take();
  EXPECT_EQ(all.at(0).from, 2u);
  EXPECT_EQ(all.at(1).from, 1u);
  redo.made();
  const auto last = redo.next_ask();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->ranges, range_at(520));
}

TEST(RedoQueue, RefusesWhatIsNotWhatWasAskedFor) {
  ServerDesk desk;
  desk.reset(layout());
  RedoQueue redo;
  EXPECT_FALSE(redo.add(3, {.target = 6, .rounds = {redo_round(5, {1})}, .settings = {}})) << "a round is missing";
  EXPECT_FALSE(redo.add(3, {.target = 4, .rounds = {redo_round(4, {1, 1})}, .settings = {}})) << "a worker twice";
  EXPECT_FALSE(redo.add(3, {.target = 4, .rounds = {redo_round(4, {})}, .settings = {}}));
  ASSERT_TRUE(redo.add(3, {.target = 4, .rounds = {redo_round(4, {1})}, .settings = {}}));
  redo.asked(*redo.next_ask(), 1, 8);
  EXPECT_EQ(resend(redo, desk, 1, 7, 410), RedoQueue::Verdict::stale) << "another request";
  EXPECT_EQ(resend(redo, desk, 2, 8, 410), RedoQueue::Verdict::stale) << "another worker";
  EXPECT_EQ(send_bytes(redo, 1, 8), RedoQueue::Verdict::refused) << "bytes before what they are of";
  EXPECT_EQ(resend(redo, desk, 1, 8, 420), RedoQueue::Verdict::refused) << "other work";
  EXPECT_EQ(resend(redo, desk, 1, 8, 410, false), RedoQueue::Verdict::gone);
}

}  // namespace
}  // namespace perigee
