// A worker's connections to others, on a transport that only takes notes.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cluster/membership/links.h"

namespace perigee {
namespace {

class Still final : public Clock {
 public:
  uint64_t now_ns() const override { return now; }
  uint64_t now = 1'000'000'000;
};

class Notes final : public Transport {
 public:
  PeerId connect(const std::string&, uint64_t) override { return ++last; }
  bool send(PeerId, std::span<const std::byte>, std::span<const std::byte>) override { return true; }
  void close(PeerId peer) override { closed.insert(peer); }
  void start_timer(uint64_t, uint64_t) override {}
  void stop_timer(uint64_t) override {}
  PeerId last = 0;
  std::set<PeerId> closed;
};

struct LinksTest : testing::Test {
  void form(uint64_t generation, std::set<WorkerId> dead = {}) {
    links.form(1, generation, 3, {{.id = 1, .address = "a:1"}, {.id = 3, .address = "c:1"}}, std::move(dead));
  }
  Still clock;
  Notes transport;
  Links links{transport, clock};
};

TEST_F(LinksTest, TheEndOfALinkThatIsInUseIsTold) {
  form(1);
  ASSERT_TRUE(links.on_connected(1));
  EXPECT_EQ(links.to(1), 1u);
  EXPECT_EQ(links.on_lost(1), 1u);
}

TEST_F(LinksTest, WhatComesByItIsUseToo) {
  form(1);
  ASSERT_TRUE(links.on_connected(1));
  links.used(1, 1);
  EXPECT_EQ(links.on_lost(1), 1u);
}

// The other end closed it in a membership without this worker, and that is heard of in the next one.
TEST_F(LinksTest, TheLateEndOfALinkOfAnOlderMembershipIsNoLoss) {
  form(1);
  ASSERT_TRUE(links.on_connected(1));
  EXPECT_EQ(links.to(1), 1u);
  form(3);
  EXPECT_EQ(links.on_lost(1), 0u);
  EXPECT_EQ(links.to(1), 0u);
  EXPECT_EQ(transport.last, 2u) << "it is made anew when it is needed";
  ASSERT_TRUE(links.on_connected(2));
  EXPECT_EQ(links.to(1), 2u);
  EXPECT_EQ(links.on_lost(2), 1u);
}

TEST_F(LinksTest, AnUnusedLinkThatIsSilentIsTold) {
  form(1);
  ASSERT_TRUE(links.on_connected(1));
  clock.now += 2'000'000'000;
  const auto silent = links.end_silent(1'600'000'000);
  ASSERT_EQ(silent.size(), 1u);
  EXPECT_EQ(silent[0].second, 1u);
}

}  // namespace
}  // namespace perigee
