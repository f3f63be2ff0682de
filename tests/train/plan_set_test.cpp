// Plans by shape: compiled once, the least recently used makes room.
#include <gtest/gtest.h>

#include <thread>

#include "tests/train/networks.h"

namespace perigee {
namespace {

TEST(PlanSet, TheLeastRecentlyUsedMakesRoom) {
  Trainer trainer(tiny_job(), {.threads = 1});
  PlanSet plans(trainer.model(), PlanSet::Kind::inference);
  for (int64_t batch = 1; batch <= static_cast<int64_t>(kMostPlans); ++batch) plans.plan(batch);
  const auto first = plans.plan(1);
  const std::weak_ptr<const Plan> second = plans.plan(2), third = plans.plan(3);
  plans.plan(2);
  plans.plan(kMostPlans + 1);  // in place of 4
  plans.plan(kMostPlans + 2);
  EXPECT_EQ(plans.plan(1), first);
  EXPECT_FALSE(second.expired());
  EXPECT_FALSE(third.expired());
  for (int64_t batch = 100; batch < 100 + static_cast<int64_t>(kMostPlans); ++batch) plans.plan(batch);
  EXPECT_TRUE(second.expired()) << "it was not asked for any more";
}

TEST(PlanSet, ThreadsThatWantTheSameCompileItOnce) {
  Trainer trainer(tiny_job(), {.threads = 1});
  PlanSet plans(trainer.model(), PlanSet::Kind::training);
  std::vector<std::shared_ptr<const Plan>> got(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i) threads.emplace_back([&, i] { got[i] = plans.plan(i % 2 == 0 ? 24 : 40); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], got[i % 2]);
  EXPECT_NE(got[0], got[1]);
  plans.drop(24);
  EXPECT_NE(plans.plan(24), got[0]);
}

TEST(PlanMemory, BindsOnePlanAnewAndKeepsTheOthers) {
  Trainer trainer(tiny_job(), {.threads = 1});
  PlanSet plans(trainer.model(), PlanSet::Kind::inference);
  PlanMemory memory(plans, trainer.model().params(), nullptr);
  constexpr int64_t kLargest = 256;
  const PlanRun* const largest = &memory.at(kLargest);  // no other needs a larger arena, in which all are bound anew
  for (int64_t batch = 1; batch < static_cast<int64_t>(kMostPlans); ++batch) memory.at(batch);
  EXPECT_EQ(&memory.at(kLargest), largest);
  const PlanRun* const second = &memory.at(2);
  memory.at(kMostPlans);  // in place of 1
  EXPECT_EQ(&memory.at(kLargest), largest);
  EXPECT_EQ(&memory.at(2), second);
}

}  // namespace
}  // namespace perigee
