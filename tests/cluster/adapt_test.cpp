// Pace and Guard by themselves: against the formulas that they are made from, and against what no honest worker says.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "cluster/exchange/guard.h"
#include "cluster/rounds/local/pace.h"

namespace perigee {
namespace {

Policy adapt_policy(const std::string& options) {
  const Json json = Json::parse(R"({"type": "periodic", )" + options + "}", "test");
  return read_policy(&json, "test");
}

// Rounds of two equal workers: `beside_s` beside training, `step_s` a step. As in a cluster, what is decided after a round is said when
// the next one has begun.
struct Loop {
  explicit Loop(const Policy& policy) : pace(policy), now(pace.every()), next(now) {}
  double round(double step_s, double beside_s) {
    const double training_s = static_cast<double>(now) * step_s;
    for (const WorkerId id : {1, 2}) pace.on_steps(id, now, training_s);
    const int64_t before = pace.every();
    pace.on_round(std::vector<RoundTimes>{{1, now, training_s, beside_s}, {2, now, training_s, beside_s * 1.5}}, false);
    EXPECT_LE(pace.every(), 2 * before);
    EXPECT_GE(2 * pace.every() + 1, before);
    now = std::exchange(next, pace.every());
    return training_s / (training_s + beside_s);
  }
  Pace pace;
  int64_t now, next;
};

TEST(Pace, ReachesTheUtilisationThatIsAskedForInTenRounds) {
  for (const double share : {0.5, 0.8, 0.9})
    for (const double beside_s : {0.02, 0.26, 1.3}) {
      Loop loop(adapt_policy(R"("every": "auto", "every_max": 4096, "utilisation": )" + std::to_string(share)));
      for (int i = 0; i < 10; ++i) loop.round(0.01, beside_s);
      EXPECT_NEAR(loop.round(0.01, beside_s), share, 0.02) << share << " with " << beside_s;
      EXPECT_EQ(loop.pace.every(), std::llround(std::ceil(share / (1 - share) * beside_s / 0.01 - 1e-6)));
    }
}

TEST(Pace, FollowsATenfoldChangeInFiveRounds) {
  for (const double factor : {10.0, 0.1}) {
    Loop loop(adapt_policy(R"("every": "auto", "every_max": 4096)"));
    for (int i = 0; i < 15; ++i) loop.round(0.01, 0.26);
    double share = 0;
    for (int i = 0; i < 6; ++i) share = loop.round(0.01, 0.26 * factor);
    EXPECT_GE(share, 0.7) << factor;
    EXPECT_LE(share, 0.9) << factor;
  }
}

TEST(Pace, KeepsItsBounds) {
  Loop slow(adapt_policy(R"("every": "auto", "every_min": 4, "every_max": 40)"));
  for (int i = 0; i < 12; ++i) slow.round(0.001, 5);
  EXPECT_EQ(slow.pace.every(), 40);
  for (int i = 0; i < 12; ++i) slow.round(1, 0);
  EXPECT_EQ(slow.pace.every(), 4);
}

TEST(Pace, BySpeedIsInProportion) {
  Pace pace(adapt_policy(R"("every": 48, "by_speed": true)"));
  EXPECT_EQ(pace.steps(1), 48) << "nothing is known yet";
  pace.on_steps(1, 10, 1.0), pace.on_steps(2, 10, 2.0), pace.on_steps(3, 10, 4.0), pace.on_steps(4, 10, 3.1), pace.on_steps(5, 1, 1e5);
  EXPECT_EQ(pace.steps(1), 48);
  EXPECT_EQ(pace.steps(2), 24);
  EXPECT_EQ(pace.steps(3), 12);
  EXPECT_EQ(pace.steps(4), 15);  // 48 / 3.1 = 15.5
  EXPECT_EQ(pace.steps(5), 1);
  pace.forget(1);
  EXPECT_EQ(pace.steps(2), 48) << "it is the fastest now";
}

TEST(Pace, AFixedNumberOfStepsStays) {
  Loop loop(adapt_policy(R"("every": 7)"));
  for (int i = 0; i < 5; ++i) loop.round(0.001, 10);
  EXPECT_EQ(loop.pace.every(), 7);
  EXPECT_EQ(loop.pace.steps(2), 7);
  EXPECT_NEAR(loop.pace.utilisation(), 0.007 / 10 / 1.25, 1e-4);
}

TEST(Pace, ReplicasThatPullApartMeetSooner) {
  Pace pace(adapt_policy(R"("every": "auto")"));
  const auto round = [&](bool apart) {
    pace.on_steps(1, 100, 1);
    pace.on_round(std::vector<RoundTimes>{{1, 100, 1, 4}}, apart);  // wants 1600, and gets 1000
    return pace.every();
  };
  for (int i = 0; i < 10; ++i) round(false);
  EXPECT_EQ(round(false), 1000);
  EXPECT_EQ(round(true), 500);
  EXPECT_EQ(round(true), 250);
  EXPECT_EQ(round(false), 500);
  EXPECT_EQ(round(false), 1000);
}

TEST(Pace, WhatNoWorkerCanMeasureIsPassedOver) {
  Loop loop(adapt_policy(R"("every": "auto")"));
  for (int i = 0; i < 10; ++i) loop.round(0.01, 0.26);
  const int64_t every = loop.pace.every();
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  for (const double wrong : {nan, infinite, -1.0, 1e300}) {
    loop.pace.on_steps(1, 10, wrong);
    loop.pace.on_round(std::vector<RoundTimes>{{1, 10, wrong, 0.1}, {2, 10, 0.1, wrong}}, false);
  }
  loop.pace.on_steps(1, -5, 1), loop.pace.on_steps(1, 0, 1);
  EXPECT_EQ(loop.pace.every(), every);
}

ChangeSize change_of(WorkerId id, double norm, int64_t steps = 10) {
  return {.id = id, .steps = steps, .examples = steps * 32, .norms = {.change = norm}};
}

std::vector<WorkerId> outlying(const Guard& guard, const std::vector<ChangeSize>& ready) {
  std::vector<WorkerId> ids;
  for (const Outlier& outlier : guard.outlying(ready)) ids.push_back(outlier.id);
  return ids;
}

TEST(Guard, AContributionFarAboveTheMedianIsOutlying) {
  const Guard guard({.outlier = 3});
  const std::vector<ChangeSize> ready = {change_of(1, 1), change_of(2, 1.2), change_of(3, 9), change_of(4, 0.8)};
  ASSERT_EQ(outlying(guard, ready), std::vector<WorkerId>{3});
  EXPECT_EQ(guard.outlying(ready)[0].size, 9);
  EXPECT_NEAR(guard.outlying(ready)[0].median, 1, 1e-12);  // the lower of the two in the middle
  EXPECT_TRUE(outlying(guard, {change_of(1, 1), change_of(2, 1.2), change_of(3, 2.9), change_of(4, 1)}).empty());
  EXPECT_TRUE(outlying(Guard({.outlier = 0}), ready).empty());
}

TEST(Guard, WhenAllAreLargerNoneIs) {  // a learning rate that warms up
  Guard guard({.outlier = 3});
  for (int round = 0; round < 5; ++round)
    guard.on_begin(std::vector<ChangeSize>{change_of(1, 1), change_of(2, 1), change_of(3, 1), change_of(4, 1)});
  EXPECT_TRUE(outlying(guard, {change_of(1, 10), change_of(2, 11), change_of(3, 9), change_of(4, 10)}).empty());
  EXPECT_TRUE(outlying(guard, {change_of(1, 10), change_of(2, 10)}).empty());
  EXPECT_EQ(outlying(guard, {change_of(1, 1), change_of(2, 10)}), std::vector<WorkerId>{2})
      << "the rounds before tell which of the two it is";
  EXPECT_TRUE(outlying(Guard({}), {change_of(1, 1), change_of(2, 10)}).empty()) << "nothing does";
  EXPECT_TRUE(outlying(guard, {change_of(1, 100)}).empty()) << "no peer to compare it with";
}

TEST(Guard, BesideNoChangeNoneIs) {  // a learning rate that begins with 0
  Guard guard({.outlier = 3});
  for (int round = 0; round < 5; ++round) guard.on_begin(std::vector<ChangeSize>{change_of(1, 0), change_of(2, 0), change_of(3, 0)});
  EXPECT_TRUE(outlying(guard, {change_of(1, 0), change_of(2, 0.1), change_of(3, 0)}).empty());
  EXPECT_EQ(outlying(guard, {change_of(1, 1), change_of(2, 10), change_of(3, 1)}), std::vector<WorkerId>{2});
}

// While it was alone nobody could tell, and what it did then does not make it like the others.
TEST(Guard, WhoWasOutlyingAloneIsSoBesideOthers) {
  Guard guard({.outlier = 3});
  for (int round = 0; round < 10; ++round) guard.on_begin(std::vector<ChangeSize>{change_of(1, 1000)});
  for (int round = 0; round < 8; ++round) guard.on_begin(std::vector<ChangeSize>{change_of(1, 1000), change_of(2, 1)});
  EXPECT_EQ(outlying(guard, {change_of(1, 1000), change_of(2, 1), change_of(3, 1)}), std::vector<WorkerId>{1});
  EXPECT_EQ(outlying(guard, {change_of(1, 1000), change_of(2, 1)}), std::vector<WorkerId>{1});
  EXPECT_TRUE(outlying(guard, {change_of(1, 1), change_of(2, 1), change_of(3, 1)}).empty());
}

TEST(Guard, WhoMakesMoreStepsMayChangeMore) {
  for (const double growth : {0.5, 1.0}) {  // random walk, straight ahead
    const auto of = [&](WorkerId id, int64_t steps) { return change_of(id, std::pow(static_cast<double>(steps), growth), steps); };
    const Guard guard({.outlier = 3});
    EXPECT_TRUE(outlying(guard, {of(1, 100), of(2, 10), of(3, 10), of(4, 10)}).empty()) << growth;
    EXPECT_TRUE(outlying(guard, {of(1, 10), of(2, 100), of(3, 100), of(4, 100)}).empty()) << growth;
  }
}

TEST(Guard, NormsThatCannotBeAreNotBelieved) {
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  Guard guard({.outlier = 3});
  for (const double wrong : {nan, infinite, -3.0})
    EXPECT_TRUE(outlying(guard, {change_of(1, 1), change_of(2, 1), change_of(3, wrong), change_of(4, 1)}).empty());
  guard.on_begin(std::vector<ChangeSize>{change_of(1, nan), change_of(2, 1)});
  EXPECT_LT(guard.norms().change, 0);
}

TEST(Guard, ReplicasAreAsFarApartAsTheirChangesSay) {
  Guard guard({.outlier = 3});
  // Changes of length 3 and 4 at a right angle, of 320 and 960 examples: their mean is (0.75, 3).
  guard.on_begin(std::vector<ChangeSize>{change_of(1, 3, 10), change_of(2, 4, 30)});
  EXPECT_LT(guard.divergence(), 0) << "the mean is known one round later";
  std::vector<ChangeSize> next = {change_of(1, 1), change_of(2, 1)};
  for (ChangeSize& c : next) c.norms.merged = std::hypot(0.75, 3.0);
  guard.on_begin(next);
  EXPECT_NEAR(guard.divergence(), (0.25 * 3 + 0.75 * 4) / std::hypot(0.75, 3.0), 1e-12);
  EXPECT_FALSE(guard.apart());
  for (ChangeSize& c : next) c.norms.merged = 0.5;  // of two changes of length 1: below 1 / (1.25 sqrt(2))
  guard.on_begin(next), guard.on_begin(next);
  EXPECT_FALSE(guard.apart()) << "two rounds may be chance";
  guard.on_begin(next);
  EXPECT_NEAR(guard.divergence(), 2, 1e-12);
  EXPECT_TRUE(guard.apart());
}

// Rounds of a run of a thousand, by their losses.
std::string judged(Guard& guard, const std::vector<double>& losses, double per_round = 0.001) {
  for (size_t i = 0; i < losses.size(); ++i) {
    const std::string why = guard.on_round(
        {.round = static_cast<int64_t>(i), .loss = losses[i], .progress = per_round * static_cast<double>(i + 1), .workers = 4});
    if (!why.empty()) return why;
  }
  return "";
}

TEST(Guard, ALossThatGoesBackUpIsDivergence) {
  std::vector<double> falling, back;
  for (int i = 0; i < 300; ++i) falling.push_back(0.3 + 2 * std::exp(-i / 50.0) + (i % 2 == 0 ? 0.2 : -0.2));
  back = falling;
  for (int i = 0; i < 100; ++i) back.push_back(2.3);
  Guard good({}), bad({}), off({.divergence = false}), end({});
  EXPECT_EQ(judged(good, falling), "");
  EXPECT_NE(judged(bad, back).find("since round 3"), std::string::npos);
  EXPECT_EQ(judged(off, back), "");
  EXPECT_EQ(judged(end, back, 0.0027), "") << "the last fifth";
  std::vector<double> spike = falling;
  for (int i = 0; i < 10; ++i) spike.push_back(2.3);
  for (int i = 0; i < 50; ++i) spike.push_back(0.3);
  Guard forgiving({});
  EXPECT_EQ(judged(forgiving, spike), "");
}

// Whatever the batches say by chance; found with a learning rate of 1e-30.
TEST(Guard, ALossThatMerelyStaysIsNotDivergence) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> chance(0, 0.1);
    std::vector<double> stays;
    for (int i = 0; i < 4000; ++i) stays.push_back(2.3 + chance(random));
    for (const double per_round : {0.00025, 0.002, 0.02}) {
      Guard guard({});
      EXPECT_EQ(judged(guard, stays, per_round), "") << seed;
    }
  }
}

TEST(Guard, ALossIsJudgedByItsOwnLineOfParametersAlone) {
  std::vector<double> falling;
  for (int i = 0; i < 300; ++i) falling.push_back(0.3 + 2 * std::exp(-i / 50.0));
  for (const int64_t kept : {-1, 3, 40}) {
    Guard guard({});
    EXPECT_EQ(judged(guard, falling), "");
    guard.go_back(kept);
    std::string why;
    for (size_t i = static_cast<size_t>(kept + 1); i < falling.size() + 100 && why.empty(); ++i)
      why = guard.on_round({.round = static_cast<int64_t>(i),
                            .loss = i < falling.size() ? falling[i] : 2.3,
                            .progress = 0.001 * static_cast<double>(i + 1),
                            .workers = 4});
    EXPECT_NE(why.find("since round 3"), std::string::npos) << "after round " << kept << ": " << why;
  }
}

TEST(Guard, WhatErrorFeedbackHoldsBackIsWeighedWithTheGain) {
  const auto trips = [](double gain, double residual) {
    Guard guard({.outlier = 3});
    for (int i = 0; i < 40; ++i) {
      std::vector<ChangeSize> ready = {change_of(1, 1), change_of(2, 1), change_of(3, 1), change_of(4, 1)};
      for (ChangeSize& c : ready) c.norms.residual = residual;
      guard.on_begin(ready);
      if (!guard.on_round({.round = i, .loss = 1, .progress = 0.001 * i, .workers = 4, .gain = gain}).empty()) return true;
    }
    return false;
  };
  EXPECT_TRUE(trips(7, 3.5));    // top 2 % with 0.7, 0.9
  EXPECT_FALSE(trips(7, 2));     // two bits with 0.7, 0.9
  EXPECT_FALSE(trips(2, 5));     // top 2 % with 1, 0.5
  EXPECT_FALSE(trips(1, 1000));  // no momentum: late, but it comes
  // Adagrad at a server has no bound on what it adds up to; nothing is held back there.
  EXPECT_FALSE(trips(std::numeric_limits<double>::infinity(), 0));
}

TEST(Guard, ParametersThatGrowWithoutBoundAreDivergence) {
  Guard guard({.outlier = 3});
  std::string why;
  for (int i = 0; i < 20 && why.empty(); ++i) {
    std::vector<ChangeSize> ready = {change_of(1, 1), change_of(2, 1)};
    for (ChangeSize& c : ready) c.norms.parameters = 10 * std::pow(1.5, i);
    guard.on_begin(ready);
    why = guard.on_round({.round = i, .loss = 1, .progress = 0.001 * i, .workers = 2});
    EXPECT_EQ(!why.empty(), std::pow(1.5, i) > 100) << i;
  }
  EXPECT_NE(why.find("norm"), std::string::npos);
}

}  // namespace
}  // namespace perigee
