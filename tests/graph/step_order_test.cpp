// Which steps may run side by side: an order must keep every pair of steps that touch each other's memory apart, on however many branches.
#include "src/graph/step_order.h"

#include <gtest/gtest.h>

#include <random>

namespace perigee {
namespace {

MemoryRange bytes(size_t begin, size_t end) { return range_of(reinterpret_cast<const void*>(0x10000 + begin), end - begin); }

StepAccess step(std::initializer_list<MemoryRange> reads, std::initializer_list<MemoryRange> writes) {
  StepAccess access;
  for (const MemoryRange& range : reads) access.read(range);
  for (const MemoryRange& range : writes) access.write(range);
  return access;
}

// By step: those that are done before it begins, by nothing but branches and waits.
std::vector<std::vector<bool>> before_each(const StepOrder& order) {
  std::vector<std::vector<bool>> before;
  std::vector<int> last(8, -1);
  for (size_t i = 0; i < order.places.size(); ++i) {
    std::vector<bool> mine(order.places.size());
    std::vector<int> from = order.places[i].waits;
    int& own = last[static_cast<size_t>(order.places[i].branch)];
    if (own >= 0) from.push_back(own);
    for (const int b : from) {
      mine[static_cast<size_t>(b)] = true;
      for (size_t k = 0; k < mine.size(); ++k)
        if (before[static_cast<size_t>(b)][k]) mine[k] = true;
    }
    own = static_cast<int>(i);
    before.push_back(std::move(mine));
  }
  return before;
}

TEST(StepOrder, AChainStaysOnOneBranch) {
  const StepAccess chain[] = {step({}, {bytes(0, 64)}), step({bytes(0, 64)}, {bytes(64, 128)}), step({bytes(64, 128)}, {bytes(128, 192)})};
  const StepOrder order = order_steps(chain, 4);
  EXPECT_EQ(order.branches, 1);
  for (const StepPlace& place : order.places) EXPECT_TRUE(place.branch == 0 && place.waits.empty());
  EXPECT_EQ(order.edges_of_reuse, 0);
}

// Backward of a layer: what its weights and what its input get come of the same gradient.
TEST(StepOrder, BranchesAtAForkAndWaitsAtTheJoin) {
  const StepAccess steps[] = {step({}, {bytes(0, 64)}), step({bytes(0, 64)}, {bytes(64, 128)}), step({bytes(0, 64)}, {bytes(128, 192)}),
                              step({bytes(64, 192)}, {bytes(192, 256)})};
  const StepOrder order = order_steps(steps, 4);
  EXPECT_EQ(order.branches, 2);
  EXPECT_EQ(order.places[1].branch, 0);
  EXPECT_EQ(order.places[2].branch, 1);
  EXPECT_EQ(order.places[2].waits, std::vector<int>{0});
  EXPECT_EQ(order.places[3].waits.size(), 1u);
}

TEST(StepOrder, FollowsForEachOfThreeReasonsAndNoOther) {
  const StepAccess reader = step({bytes(0, 64)}, {}), writer = step({}, {bytes(63, 70)}), beside = step({bytes(0, 63)}, {bytes(70, 80)});
  EXPECT_TRUE(must_follow(writer, reader));
  EXPECT_TRUE(must_follow(reader, writer));
  EXPECT_TRUE(must_follow(writer, writer));
  EXPECT_FALSE(must_follow(reader, reader));
  EXPECT_FALSE(must_follow(writer, beside));
  EXPECT_FALSE(must_follow(beside, writer));
}

TEST(StepOrder, CountsEdgesOfMemoryThatIsUsedAgain) {
  // The third writes where the first did, when the second has read it; the fourth reads what the third wrote.
  const StepAccess steps[] = {step({}, {bytes(0, 64)}), step({bytes(0, 64)}, {bytes(64, 128)}), step({}, {bytes(0, 64)}),
                              step({bytes(0, 64)}, {bytes(128, 192)})};
  EXPECT_EQ(order_steps(steps, 4).edges_of_reuse, 1);
}

TEST(StepOrder, RangesOfViewsReachFromTheFirstByteToTheLast) {
  auto* const at = reinterpret_cast<std::byte*>(0x1000);
  EXPECT_EQ(range_of(View{.data = at, .dtype = Dtype::f32, .rank = 2, .dims = {3, 2}, .strides = {10, 1}}), range_of(at, 22 * 4));
  EXPECT_EQ(range_of(View{.data = at + 8, .dtype = Dtype::f16, .rank = 1, .dims = {5}, .strides = {-1}}), range_of(at, 10));
  EXPECT_EQ(range_of(View{.data = at, .dtype = Dtype::f32, .rank = 2, .dims = {3, 4}, .strides = {0, 0}}), range_of(at, 4));
  EXPECT_EQ(range_of(View{.data = at, .rank = 2, .dims = {3, 0}, .strides = {1, 1}}), MemoryRange{});
  EXPECT_EQ(range_of(View{.rank = 0}), MemoryRange{});
}

TEST(StepOrder, KeepsAnyProgramsPairsApart) {
  std::mt19937 random(7);
  const auto any = [&](size_t n) { return random() % n; };
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<StepAccess> steps(1 + any(60));
    for (StepAccess& access : steps) {
      const auto range = [&] {
        const size_t begin = any(400);
        return bytes(begin, begin + any(60));
      };
      for (size_t k = any(4); k > 0; --k) access.read(range());
      for (size_t k = any(3); k > 0; --k) access.write(range());
      access.cost = 1 + static_cast<double>(any(10));
    }
    for (int branches = 1; branches <= 5; ++branches) {
      const StepOrder order = order_steps(steps, branches);
      ASSERT_LE(order.branches, branches);
      const auto before = before_each(order);
      for (size_t i = 0; i < steps.size(); ++i)
        for (size_t k = 0; k < i; ++k) {
          if (must_follow(steps[k], steps[i])) {
            ASSERT_TRUE(before[i][k]) << trial << ": " << i << " may overtake " << k;
          }
        }
    }
  }
}

}  // namespace
}  // namespace perigee
