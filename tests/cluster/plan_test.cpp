// The fixed plan, the fixed tree and the policies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "cluster/ledger/fixed_plan.h"
#include "cluster/policy/policy.h"
#include "src/core/error.h"

namespace perigee {
namespace {

// Walks a plan to its end and returns how often each position came.
std::map<std::pair<uint64_t, int64_t>, int> walk(const FixedPlan& plan, int64_t limit = 100000) {
  std::map<std::pair<uint64_t, int64_t>, int> seen;
  int64_t before = plan.committed;
  bool last = false;
  for (int64_t round = plan.first_round; round < plan.first_round + limit; ++round) {
    const FixedPlan::Round now = plan.at(round);
    if (now.examples == 0) {
      EXPECT_TRUE(last || seen.empty()) << "the round before the end says so";
      break;
    }
    EXPECT_FALSE(last) << "a round after the last";
    last = now.last;
    EXPECT_EQ(now.examples_before, before);
    EXPECT_EQ(now.ranges.size(), static_cast<size_t>(plan.leaves));
    EXPECT_LE(now.examples, plan.global);
    int64_t sum = 0;
    for (const Range& range : now.ranges) {
      sum += range.count;
      EXPECT_EQ(range.epoch, now.ranges[0].epoch) << "a batch crosses an epoch's border";
      for (int64_t i = 0; i < range.count; ++i) ++seen[{range.epoch, range.begin + i}];
    }
    EXPECT_EQ(sum, now.examples);
    before += sum;
  }
  return seen;
}

TEST(FixedPlan, CoversEveryPlannedPositionOnce) {
  for (const int64_t size : {1, 7, 64, 100})
    for (const int64_t planned : {1, 50, 100, 199, 300})
      for (const int64_t global : {1, 8, 30, 128})
        for (const int leaves : {1, 3, 8}) {
          const auto seen = walk({.examples_per_epoch = size, .planned = planned, .global = global, .leaves = leaves});
          ASSERT_EQ(static_cast<int64_t>(seen.size()), planned);
          for (const auto& [at, times] : seen) {
            ASSERT_EQ(times, 1);
            ASSERT_LT(static_cast<int64_t>(at.first) * size + at.second, planned);
          }
        }
}

TEST(FixedPlan, GoesOnFromAnyRoundAsIfNothingHadHappened) {
  const FixedPlan whole{.examples_per_epoch = 100, .planned = 350, .global = 32, .leaves = 4};
  for (int64_t from = 0; whole.at(from).examples > 0; ++from) {
    const FixedPlan::Round first = whole.at(from);
    FixedPlan rest = whole;
    rest.first_round = from, rest.committed = first.examples_before;
    rest.epoch = first.ranges[0].epoch, rest.position = first.ranges[0].begin;
    for (int64_t round = from; round < from + 20; ++round) {
      ASSERT_EQ(rest.at(round).ranges, whole.at(round).ranges);
      ASSERT_EQ(rest.at(round).examples_before, whole.at(round).examples_before);
      ASSERT_EQ(rest.at(round).ends_epoch, whole.at(round).ends_epoch);
      ASSERT_EQ(rest.at(round).last, whole.at(round).last);
    }
  }
}

TEST(FixedPlan, LeftoversComeFirstAndEndTheirEpoch) {
  const FixedPlan plan{.leftovers = {{0, 10, 5}, {0, 90, 10}, {1, 0, 3}},
                       .epoch = 1,
                       .position = 20,
                       .examples_per_epoch = 100,
                       .planned = 200,
                       .committed = 85,
                       .first_round = 7,
                       .global = 8,
                       .leaves = 2};
  EXPECT_EQ(plan.at(7).ranges, (std::vector<Range>{{0, 10, 2}, {0, 12, 3}}));
  EXPECT_FALSE(plan.at(7).ends_epoch);
  EXPECT_EQ(plan.at(8).ranges, (std::vector<Range>{{0, 90, 4}, {0, 94, 4}}));
  EXPECT_FALSE(plan.at(8).ends_epoch);
  EXPECT_TRUE(plan.at(9).ends_epoch) << "no leftover of epoch 0 remains";
  EXPECT_EQ(plan.at(9).examples, 2);
  EXPECT_FALSE(plan.at(10).ends_epoch) << "epoch 1 goes on";
  EXPECT_EQ(plan.at(11).ranges[0].begin, 20);
  EXPECT_EQ(walk(plan).size(), 5u + 10 + 3 + 80);
}

TEST(FixedPlan, ALastLeftoverIsTheLastRound) {
  const FixedPlan plan{.leftovers = {{1, 40, 10}},
                       .epoch = 2,
                       .examples_per_epoch = 100,
                       .planned = 200,
                       .committed = 190,
                       .first_round = 3,
                       .global = 64,
                       .leaves = 1};
  EXPECT_TRUE(plan.at(3).last);
  EXPECT_TRUE(plan.at(3).ends_epoch);
  EXPECT_EQ(plan.at(4).examples, 0);
}

TEST(FixedPlan, AnEndlessPlanReachesFarRoundsAtOnce) {
  const FixedPlan plan{.examples_per_epoch = 60000, .global = 128, .leaves = 4};
  const FixedPlan::Round far = plan.at(469'000'000'000);
  EXPECT_EQ(far.ranges[0], (Range{1'000'000'000, 0, 32}));
  EXPECT_FALSE(far.last);
}

TEST(FixedTree, RanksShareAllLeavesInOrder) {
  for (int size = 1; size <= 9; ++size)
    for (int leaves = 1; leaves <= 20; ++leaves) {
      int next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const auto [first, last] = leaves_of(rank, size, leaves);
        ASSERT_EQ(first, next);
        for (int leaf = first; leaf < last; ++leaf) ASSERT_EQ(leaf * size / leaves, rank);
        next = last;
      }
      ASSERT_EQ(next, leaves);
    }
}

// Names the nodes of the tree in which two subtrees meet; both ways of adding must name the same.
std::string sum_of(int low, int high) {
  if (high - low == 1) return std::to_string(low);
  const int middle = low + (high - low) / 2;
  return "(" + sum_of(low, middle) + "+" + sum_of(middle, high) + ")";
}

TEST(FixedTree, PartialsAreTheMaximalSubtrees) {
  for (int leaves = 1; leaves <= 17; ++leaves)
    for (int first = 0; first <= leaves; ++first)
      for (int last = first; last <= leaves; ++last) {
        const auto partials = partials_of(first, last, leaves);
        int next = first;
        for (const Partial& partial : partials) {
          ASSERT_EQ(partial.first, next);
          next += partial.count;
          ASSERT_NE(sum_of(0, leaves).find(sum_of(partial.first, next)), std::string::npos) << "no subtree";
        }
        ASSERT_EQ(next, last);
        ASSERT_LE(partials.size(), 10u);
      }
  EXPECT_EQ(partials_of(0, 8, 8).size(), 1u);
  EXPECT_EQ(partials_of(1, 8, 8).size(), 3u);
}

// ---- policies ----

Policy read(const std::string& text) {
  const Json json = Json::parse(text, "test");
  return read_policy(&json, "job.json");
}

std::string failure(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::model);
    return error.what();
  }
  return "";
}

TEST(Policy, TheDefaultIsAllreduce) {
  const Policy policy = read_policy(nullptr, "");
  EXPECT_EQ(policy.name, "allreduce");
  EXPECT_TRUE(policy.synchronous(0.99));
  EXPECT_EQ(policy.gain(4), 1);
}

TEST(Policy, ReadsWhatIsGiven) {
  const Policy periodic = read(R"({"type": "periodic", "every": 20, "quorum": 0.75, "grace_ms": 50, "topology": "ring",
                                   "average_optimizer": true, "max_staleness": 2, "deadline_ms": 3000})");
  EXPECT_FALSE(periodic.synchronous(0));
  EXPECT_EQ(periodic.every, 20);
  EXPECT_EQ(periodic.quorum, 0.75);
  EXPECT_EQ(periodic.grace_ms, 50);
  EXPECT_EQ(periodic.topology, "ring");
  EXPECT_TRUE(periodic.average_optimizer);
  EXPECT_EQ(periodic.max_staleness, 2);
  EXPECT_EQ(periodic.deadline_ms, 3000);
  const Policy post = read(R"({"type": "post_local", "sync_until": 0.25, "every_ms": 100})");
  EXPECT_TRUE(post.synchronous(0.2));
  EXPECT_FALSE(post.synchronous(0.25));
  EXPECT_EQ(post.every_ms, 100);
}

TEST(Policy, SaysWhatIsWrong) {
  EXPECT_NE(failure(R"({"type": "periodical"})").find("did you mean 'periodic'"), std::string::npos);
  EXPECT_NE(failure(R"({"type": "periodic", "evry": 3})").find("did you mean 'every'"), std::string::npos);
  EXPECT_NE(failure(R"({"type": "periodic", "topology": "rings"})").find("did you mean 'ring'"), std::string::npos);
  for (const char* wrong :
       {R"({"type": "periodic", "every": 0})", R"({"type": "periodic", "quorum": 0})", R"({"type": "periodic", "quorum": 1.5})",
        R"({"type": "allreduce", "every": 5})", R"({"type": "allreduce", "shards": -1})", R"({"type": "post_local", "sync_until": 2})",
        R"({"type": "periodic", "grace_ms": 10})", R"({"type": "periodic", "every": 5, "every_ms": 10})",
        R"({"type": "periodic", "deadline_ms": 1})", "7", "[]"})
    EXPECT_NE(failure(wrong), "") << wrong;
}

TEST(Policy, ReadsACodecAndSaysWhatIsWrongWithIt) {
  const auto read = [](const std::string& codec) {
    const Json json = Json::parse(R"({"type": "periodic", "codec": )" + codec + "}", "test");
    return read_policy(&json, "job.json");
  };
  for (const char* dense : {"null", R"("fp32")", R"({"type": "fp32"})", R"({"type": "fp32", "zstd": 0})"})
    EXPECT_FALSE(read(dense).coded()) << dense;
  const Policy policy = read(R"({"type": "topk", "share": 0.02, "decay": 0.95})");
  ASSERT_TRUE(policy.coded());
  EXPECT_EQ(policy.codec.find("share")->as_number(), 0.02);
  EXPECT_TRUE(policy.codec.find("feedback")->as_bool()) << "its default";
  const Json again = policy.to_json();
  EXPECT_EQ(read_policy(&again, "").to_json(), again);
  EXPECT_TRUE(read(R"("lowrank")").coded());

  EXPECT_NE(failure(R"({"type": "periodic", "codec": "int5"})").find("averaging: codec"), std::string::npos);
  EXPECT_NE(failure(R"({"type": "periodic", "codec": "int5"})").find("'int"), std::string::npos) << "the nearest names";
  EXPECT_NE(failure(R"({"type": "periodic", "codec": {"type": "topk", "shares": 0.1}})").find("did you mean 'share'"), std::string::npos);
  for (const char* wrong : {R"({"type": "allreduce", "codec": "int8", "shards": 4})", R"({"type": "periodic", "codec": 8})",
                            R"({"type": "periodic", "codec": []})", R"({"type": "periodic", "codec": {"type": "topk", "share": 2}})"})
    EXPECT_NE(failure(wrong), "") << wrong;
}

TEST(Policy, EveryPolicyKnowsExactlyTheOptionsOfItsList) {
  for (const PolicyDef& def : all_policies()) {
    Json json = Json::object();
    json.set("type", def.name);
    Json name = json;
    if (def.own_knobs) {
      const Json identity = Json::parse(R"({"program": [], "outputs": {"global": "mean"}})", "test");
      json.set("outer", identity), name.set("outer", identity);
    }
    for (const Option& option : def.options) {
      if (const Json fallback = fallback_value(option); !fallback.is_null()) json.set(option.name, fallback);
      EXPECT_NE(*option.doc, 0);
    }
    const Policy given = read_policy(&json, "");
    const auto without = [](Json all) {  // an undescribed state does not count
      all.erase("state");
      return all;
    };
    EXPECT_EQ(without(given.to_json()), without(read_policy(&name, "").to_json())) << "the list's defaults are not the reader's";
    for (const char* option : def.positional) EXPECT_NE(def.schema().find(option), nullptr);
    const Json again = given.to_json();
    EXPECT_EQ(read_policy(&again, "").to_json(), again);
  }
}

TEST(Policy, ATimeTakesThePlaceOfAPresetsSteps) {
  EXPECT_EQ(read(R"("diloco")").every, 500);
  const Policy policy = read(R"({"type": "diloco", "every_ms": 250})");
  EXPECT_EQ(policy.every_ms, 250);
}

}  // namespace
}  // namespace perigee
