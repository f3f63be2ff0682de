// Exchanges inside groups: who is in which group, how a policy is described, what the ledger says of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "cluster/ledger/ledger.h"
#include "cluster/rounds/inner_plan.h"
#include "src/core/error.h"
#include "tests/cluster/replica/policy_text.h"

namespace perigee {
namespace {

using Groups = Policy::Inner::Groups;

std::vector<Member> members_on(const std::vector<std::string>& hosts, const std::vector<std::string>& sites = {}) {
  std::vector<Member> members;
  for (size_t i = 0; i < hosts.size(); ++i) {
    members.push_back({.id = static_cast<WorkerId>(i + 1), .name = "w" + std::to_string(i), .host = hosts[i]});
    if (!sites.empty()) members.back().site = sites[i];
  }
  return members;
}

std::vector<Member> members_of(int count) { return members_on(std::vector<std::string>(static_cast<size_t>(count), "h")); }

TEST(InnerPlan, CountsTheExchangesBeforeTheRoundsOwn) {
  Policy policy;
  for (const auto& [every, inner, count] : {std::tuple<int, int, int>{50, 5, 9}, {50, 7, 7}, {2, 1, 1}, {5, 4, 1}, {100, 5, 19}}) {
    policy.every = every, policy.inner.every = inner;
    EXPECT_EQ(inner_exchanges(policy), count) << every << " " << inner;
  }
  policy.inner.every = 0;
  EXPECT_EQ(inner_exchanges(policy), 0);
}

// Every member computes its own group: all must come to the same partition.
TEST(InnerPlan, GroupsAreAPartitionThatAllMembersAgreeOn) {
  for (const Groups groups : {Groups::site, Groups::blocks, Groups::random, Groups::grid})
    for (int workers = 1; workers <= 17; ++workers)
      for (int64_t size = 2; size <= 4; ++size)
        for (int64_t index = 0; index < 5; ++index) {
          std::vector<std::string> hosts;
          for (int i = 0; i < workers; ++i) hosts.push_back("h" + std::to_string(i % 3));
          const std::vector<Member> members = members_on(hosts);
          const Policy::Inner inner{.every = 1, .groups = groups, .size = size};
          std::set<std::vector<int>> all;
          for (int rank = 0; rank < workers; ++rank) {
            const std::vector<int> group = inner_group(inner, members, rank, 7, index, 11);
            EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
            EXPECT_EQ(std::count(group.begin(), group.end(), rank), 1);
            if (groups != Groups::site) {
              EXPECT_LE(static_cast<int64_t>(group.size()), size);
            }
            all.insert(group);
          }
          std::vector<int> ranks;
          for (const auto& group : all) ranks.insert(ranks.end(), group.begin(), group.end());
          EXPECT_EQ(ranks.size(), static_cast<size_t>(workers)) << "a rank is in two groups";
        }
}

TEST(InnerPlan, RandomPartnersChangeAndFollowFromTheSeed) {
  const std::vector<Member> members = members_of(8);
  const Policy::Inner inner{.every = 1, .groups = Groups::random, .size = 2};
  std::set<int> partners;
  for (int64_t index = 0; index < 64; ++index) {
    const std::vector<int> group = inner_group(inner, members, 0, 3, index, 5);
    ASSERT_EQ(group.size(), 2u);
    EXPECT_EQ(group, inner_group(inner, members, 0, 3, index, 5));
    partners.insert(group[1]);
  }
  EXPECT_EQ(partners.size(), 7u) << "some pairs never meet";
  int same = 0;
  for (int64_t index = 0; index < 64; ++index)
    same += inner_group(inner, members, 0, 3, index, 5) == inner_group(inner, members, 0, 3, index, 6);
  EXPECT_LT(same, 32) << "the seed does not matter";
}

// Moshpit: with side^d workers everybody holds the mean of all after d exchanges; with another number they come closer with each.
TEST(InnerPlan, AGridIsExactAfterAsManyExchangesAsItHasAxes) {
  std::mt19937 rng(1);
  std::normal_distribution<double> normal;
  const auto play = [&](int workers, int64_t side, int64_t exchanges) {
    const Policy::Inner inner{.every = 1, .groups = Groups::grid, .size = side};
    const std::vector<Member> members = members_of(workers);
    std::vector<double> values(static_cast<size_t>(workers));
    for (double& value : values) value = normal(rng);
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / workers;
    for (int64_t index = 0; index < exchanges; ++index) {
      std::vector<double> next(values.size());
      for (int rank = 0; rank < workers; ++rank) {
        const std::vector<int> group = inner_group(inner, members, rank, 0, index, 1);
        for (const int other : group)
          next[static_cast<size_t>(rank)] += values[static_cast<size_t>(other)] / static_cast<double>(group.size());
      }
      values = next;
    }
    double worst = 0;
    for (const double value : values) worst = std::max(worst, std::abs(value - mean));
    return worst;
  };
  EXPECT_LT(play(4, 2, 2), 1e-12);
  EXPECT_GT(play(4, 2, 1), 1e-3);
  EXPECT_LT(play(8, 2, 3), 1e-12);
  EXPECT_LT(play(27, 3, 3), 1e-12);
  EXPECT_GT(play(27, 3, 2), 1e-3);
}

TEST(InnerPlan, SitesAreHostsUnlessTheyHaveNames) {
  const Policy::Inner inner{.every = 1};
  const std::vector<Member> members = members_on({"a", "a", "b", "b"}, {"", "east", "east", ""});
  EXPECT_EQ(inner_group(inner, members, 0, 0, 0, 0), (std::vector<int>{0}));
  EXPECT_EQ(inner_group(inner, members, 1, 0, 0, 0), (std::vector<int>{1, 2}));
  EXPECT_EQ(inner_group(inner, members, 3, 0, 0, 0), (std::vector<int>{3}));
  const Policy::Inner blocks{.every = 1, .groups = Groups::blocks, .size = 3};
  EXPECT_EQ(inner_group(blocks, members, 3, 0, 0, 0), (std::vector<int>{3}));
  EXPECT_EQ(inner_group(blocks, members, 2, 0, 0, 0), (std::vector<int>{0, 1, 2}));
}

TEST(InnerPolicy, NestedIsReadAndWritten) {
  const Policy policy = policy_of(R"({"type": "nested", "group": 2, "inside": {"type": "periodic", "every": 5, "codec": "int8"},
      "across": {"type": "diloco", "every": 50, "momentum": 0.5, "rate": 1, "codec": "int4", "topology": "star"}})");
  EXPECT_EQ(policy.name, "nested");
  EXPECT_EQ(policy.across, "diloco");
  EXPECT_EQ(policy.every, 50);
  EXPECT_EQ(policy.inner.every, 5);
  EXPECT_EQ(policy.inner.size, 2);
  EXPECT_EQ(policy.topology, "star");
  EXPECT_NEAR(policy.gain(4), 2, 0.01);
  const Json written = policy.to_json();
  EXPECT_EQ(read_policy(&written, "job").to_json(), written);
}

TEST(InnerPolicy, GossipIsReadAndWritten) {
  const Policy policy = policy_of(R"({"type": "gossip", "every": 4, "group": 3, "partners": "grid", "consensus": 40, "codec": "int8"})");
  EXPECT_EQ(policy.inner.every, 4);
  EXPECT_EQ(policy.every, 40);
  EXPECT_EQ(policy.inner.groups, Groups::grid);
  EXPECT_EQ(policy.inner.codec, policy.codec);
  const Json written = policy.to_json();
  EXPECT_EQ(read_policy(&written, "job").to_json(), written);
}

TEST(InnerPolicy, WhatDoesNotFitIsRefusedWithTheReason) {
  const auto refused = [](const std::string& text, const std::string& part) {
    const std::string error = refusal_of(text);
    EXPECT_NE(error.find(part), std::string::npos) << text << "\n" << error;
  };
  const std::string across = R"(, "across": {"type": "periodic", "every": 50}})";
  refused(R"({"type": "nested", "inside": "allreduce")" + across, "averages gradients");
  refused(R"({"type": "nested", "inside": {"type": "diloco", "every": 5})" + across, "outer step");
  refused(R"({"type": "nested", "inside": {"type": "periodic", "every": 50})" + across, "no room");
  refused(R"({"type": "nested", "inside": {"type": "periodic", "every": 5, "average_optimizer": true})" + across, "average_optimizer");
  refused(R"({"type": "nested", "inside": "nested")" + across, "groups of its own");
  refused(R"({"type": "nested", "across": {"type": "periodic", "every": 50, "quorum": 0.5}})", "quorum");
  refused(R"({"type": "nested", "across": {"type": "periodic", "every_ms": 50}})", "every_ms");
  refused(R"({"type": "nested", "group": "rack")" + across, "group");
  refused(R"({"type": "nested", "group": 0)" + across, "group");
  refused(R"({"type": "nested", "every": 5})", "every");
  refused(R"({"type": "gossip", "consensus": 5})", "no room");
  refused(R"({"type": "gossip", "every": 1, "consensus": 1000000})", "too many");
  refused(R"({"type": "gossip", "partners": "friends"})", "partners");
  refused(R"({"type": "gossip", "quorum": 0.5})", "quorum");
  refused(R"({"type": "gossip", "group": 1})", "group");
}

// Examples that may have more or less than their share are reported, and still count once; with later rounds they become void.
TEST(InnerLedger, TellsWhatIsNotExact) {
  std::vector<LedgerRecord> records;
  records.push_back({.kind = LedgerRecord::Kind::job, .text = R"({"examples": 100, "planned": 100, "accounting": "bounded"})"});
  records.push_back({.round = 0, .hash = 1, .shares = {{1, 40, {{0, 0, 40}}}}});
  records.push_back({.kind = LedgerRecord::Kind::inexact, .round = 0, .shares = {{2, 30, {{0, 40, 30}}}}, .text = "it was lost"});
  records.push_back({.round = 1, .hash = 2, .shares = {{1, 60, {{0, 40, 60}}}}});
  std::vector<std::byte> bytes;
  for (const LedgerRecord& record : records) {
    const std::vector<std::byte> one = encode_record(record);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  size_t read = 0;
  EXPECT_EQ(decode_records(bytes, &read), records);
  LedgerAudit found = audit(records);
  EXPECT_TRUE(found.sound());
  EXPECT_EQ(found.counted, 100);
  EXPECT_EQ(found.inexact, 30);
  records.push_back({.kind = LedgerRecord::Kind::voided, .generation = 1, .round = -1});
  EXPECT_EQ(audit(records).inexact, 0);
}

}  // namespace
}  // namespace perigee
