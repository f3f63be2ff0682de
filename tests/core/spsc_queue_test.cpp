#include "src/core/spsc_queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace perigee {
namespace {

TEST(SpscQueue, IsBoundedAndKeepsItsOrder) {
  SpscQueue<int, 4> queue;
  EXPECT_EQ(queue.front(), nullptr);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) *queue.place() = 10 * round + i, queue.push();
    EXPECT_EQ(queue.place(), nullptr);
    for (int i = 0; i < 4; ++i) {
      ASSERT_NE(queue.front(), nullptr);
      EXPECT_EQ(*queue.front(), 10 * round + i);
      queue.pop();
    }
    EXPECT_EQ(queue.front(), nullptr);
  }
}

// Contents keep their memory from one use of a place to the next.
TEST(SpscQueue, PlacesAreUsedAgain) {
  SpscQueue<std::vector<int>, 2> queue;
  for (int i = 0; i < 2; ++i) queue.place()->assign(100, i), queue.push(), queue.pop();
  const int* memory = queue.place()->data();
  queue.place()->assign(50, 7);
  EXPECT_EQ(queue.place()->data(), memory);
}

TEST(SpscQueue, CarriesFromThreadToThread) {
  constexpr int kCount = 20'000;
  SpscQueue<int, 8> queue;
  const std::atomic<bool> stop{false};
  int64_t sum = 0;
  std::thread consumer([&] {
    for (int received = 0; received < kCount;) {
      if (const int* next = queue.front()) sum += *next, ++received, queue.pop();
      else queue.wait(stop);
    }
  });
  for (int i = 0; i < kCount;) {
    if (int* place = queue.place()) *place = i++, queue.push();
    else std::this_thread::yield();
  }
  consumer.join();
  EXPECT_EQ(sum, int64_t{kCount} * (kCount - 1) / 2);
}

TEST(SpscQueue, StopEndsAWait) {
  SpscQueue<int, 2> queue;
  std::atomic<bool> stop{false};
  std::thread consumer([&] {
    while (!stop) queue.wait(stop);
  });
  stop = true;
  queue.wake();
  consumer.join();
  EXPECT_EQ(queue.front(), nullptr);
}

}  // namespace
}  // namespace perigee
