// Inner exchanges in replicas that really train, against the mean computed apart, against clusters that average by themselves, and against
// plain periodic averaging.
#include <algorithm>
#include <cmath>

#include "src/run/checkpoint.h"
#include "tests/cluster/replica/replica_harness.h"

namespace perigee {
namespace {

constexpr int64_t kBatch = 16;

// Plain SGD at a constant rate: a replica's next step depends on its parameters alone.
Welcome welcome_to_inner(const std::string& averaging, const std::string& optimizer = R"({"type": "sgd", "lr": 0.05})") {
  Welcome welcome;
  welcome.job = R"({"loss": "cross_entropy", "seed": 5, "epochs": 100, "network": {"type": "sequential", "layers": [
      {"type": "conv2d", "out": 3, "kernel": 5, "stride": 4}, {"type": "activation", "activation": "tanh"},
      {"type": "dense", "out": 10}]}, "optimizer": )" +
                optimizer + R"(, "averaging": )" + averaging +
                R"(, "data": {"train": {"type": "digits", "endless": false, "size": 1024}, "batch": 16}})";
  welcome.folder = ".";
  welcome.threads = 1;
  return welcome;
}

// Each replica's examples of a round are its own 128.
TrainOrder part_of(int64_t round, size_t node, int64_t begun, int64_t steps, bool inner) {
  TrainOrder order{.round = round, .carried = begun * kBatch, .inner = inner};
  for (int64_t i = begun; i < begun + steps; ++i)
    order.ranges.push_back({static_cast<uint64_t>(round), static_cast<int64_t>(node) * 128 + i * kBatch, kBatch});
  return order;
}

// The staged row as parameters, in double.
std::vector<double> staged(TestReplica& node, size_t size) {
  const auto weight = static_cast<double>(node.tail().examples);
  std::vector<double> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = static_cast<double>(node.row()[i]) / weight;
  return values;
}

// Local values after `begun` steps of the round.
std::vector<double> local_values(TestReplica& node, int64_t round, int64_t begun, size_t size) {
  TrainOrder nothing = part_of(round, 0, 0, 0, true);
  nothing.carried = begun * kBatch;
  node.train(nothing);
  return staged(node, size);
}

void share_rows(Replicas& nodes, const std::vector<size_t>& group) {
  const ExchangeLayout layout = nodes[0]->replica->layout();
  std::vector<std::byte> sum;
  for (const size_t i : group) {
    const std::span<std::byte> row = nodes[i]->replica->exchange_row(0);
    if (sum.empty()) sum.assign(row.begin(), row.end());
    else add_row(layout, sum.data(), row.data());
  }
  for (const size_t i : group) std::memcpy(nodes[i]->replica->exchange_row(0).data(), sum.data(), sum.size());
}

void exchange_inside(Replicas& nodes, const std::vector<size_t>& group, int64_t round, int64_t index) {
  InnerApplyOrder order{.round = round, .index = index};
  for (const size_t i : group)
    if (nodes[i]->contribution.payload) order.payloads.push_back(nodes[i]->contribution.payload);
  share_rows(nodes, group);
  for (const size_t i : group) {
    nodes[i]->apply_inner(order);
    EXPECT_EQ(nodes[i]->refused, -1);
  }
}

void end_round(Replicas& nodes, int64_t round, int64_t examples) {
  std::vector<size_t> all(nodes.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  share_rows(nodes, all);
  for (auto& node : nodes) node->apply(round, examples, (round + 1) * examples);
  for (auto& node : nodes) EXPECT_EQ(node->hash, nodes[0]->hash) << "round " << round;
}

const char* const kNested =
    R"({"type": "nested", "group": 2, "inside": {"type": "periodic", "every": 2}, "across": {"type": "periodic", "every": 4}})";

// Weighted by all that each has trained since the result; nothing else changes, and the result held stays what it was.
TEST(InnerReplica, TakesTheGroupsWeightedMean) {
  Replicas nodes = make_replicas(3, welcome_to_inner(kNested));
  const std::vector<double> before = parameters_of(*nodes[0]);
  const std::vector<int64_t> steps = {3, 1, 0};
  std::vector<double> mean(before.size());
  for (size_t i = 0; i < 3; ++i) {
    nodes[i]->train(part_of(0, i, 0, steps[i], true));
    EXPECT_EQ(nodes[i]->tail().examples, steps[i] * kBatch);
    if (steps[i] == 0) continue;
    const std::vector<double> own = staged(*nodes[i], before.size());
    EXPECT_GT(relative_difference(before, own), 1e-4);
    for (size_t k = 0; k < mean.size(); ++k) mean[k] += own[k] * static_cast<double>(steps[i]) / 4;
  }
  exchange_inside(nodes, {0, 1, 2}, 0, 0);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_LE(relative_difference(mean, local_values(*nodes[i], 0, 4, before.size())), 2e-7) << i;
    EXPECT_EQ(parameters_of(*nodes[i]), before);
  }
}

// Four workers in two groups are two clusters of two that average every two steps, and their mean at the end of each round.
TEST(InnerTrajectory, NestedIsTwoClustersAndTheirMean) {
  Replicas nodes = make_replicas(4, welcome_to_inner(kNested));
  const std::string periodic = R"({"type": "periodic", "every": 2})";
  Replicas apart[2] = {make_replicas(2, welcome_to_inner(periodic)), make_replicas(2, welcome_to_inner(periodic))};
  for (int64_t round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 4; ++i) nodes[i]->train(part_of(round, i, 0, 2, true));
    exchange_inside(nodes, {0, 1}, round, 0);
    exchange_inside(nodes, {2, 3}, round, 0);
    for (size_t i = 0; i < 4; ++i) nodes[i]->train(part_of(round, i, 2, 2, false));
    end_round(nodes, round, 4 * 4 * kBatch);

    std::vector<double> mean;
    for (size_t cluster = 0; cluster < 2; ++cluster) {
      for (int64_t part = 0; part < 2; ++part) {
        for (size_t i = 0; i < 2; ++i) {
          TrainOrder order = part_of(round, 2 * cluster + i, 2 * part, 2, false);
          order.carried = 0;
          apart[cluster][i]->train(order);
        }
        end_round(apart[cluster], 2 * round + part, 2 * 2 * kBatch);
      }
      const std::vector<double> own = parameters_of(*apart[cluster][0]);
      mean.resize(own.size());
      for (size_t k = 0; k < own.size(); ++k) mean[k] += own[k] / 2;
    }
    EXPECT_LE(relative_difference(mean, parameters_of(*nodes[0])), 1e-6) << "round " << round;
    const SharedBytes image = nodes[0]->snapshot();
    for (auto& cluster : apart)
      for (auto& replica : cluster) replica->load(2 * round + 1, image);
  }
}

// Two workers that gossip meet each other every time: the bits of periodic averaging, momentum and all. The weights are powers of two.
TEST(InnerIdentity, GossipOfTwoIsPeriodicAveraging) {
  const char* momentum = R"({"type": "sgd", "lr": 0.05, "momentum": 0.9})";
  Replicas gossip = make_replicas(2, welcome_to_inner(R"({"type": "gossip", "every": 2, "consensus": 4})", momentum));
  Replicas periodic = make_replicas(2, welcome_to_inner(R"({"type": "periodic", "every": 2})", momentum));
  for (int64_t round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 2; ++i) gossip[i]->train(part_of(round, i, 0, 2, true));
    exchange_inside(gossip, {0, 1}, round, 0);
    for (size_t i = 0; i < 2; ++i) gossip[i]->train(part_of(round, i, 2, 2, false));
    end_round(gossip, round, 2 * 4 * kBatch);
    for (int64_t part = 0; part < 2; ++part) {
      for (size_t i = 0; i < 2; ++i) {
        TrainOrder order = part_of(round, i, 2 * part, 2, false);
        order.carried = 0;
        periodic[i]->train(order);
      }
      end_round(periodic, 2 * round + part, 2 * 2 * kBatch);
    }
    EXPECT_EQ(parameters_of(*gossip[0]), parameters_of(*periodic[0])) << "round " << round;
  }
}

// An exchange leaves what the round will come to: the weighted sum over all workers, in any grouping.
TEST(InnerIdentity, AnExchangeConservesTheWeightedSum) {
  Replicas nodes = make_replicas(3, welcome_to_inner(kNested));
  const size_t size = parameters_of(*nodes[0]).size();
  const std::vector<int64_t> steps = {3, 1, 2};
  std::vector<double> before(size), after(size);
  for (size_t i = 0; i < 3; ++i) {
    nodes[i]->train(part_of(0, i, 0, steps[i], true));
    const std::vector<double> own = staged(*nodes[i], size);
    for (size_t k = 0; k < size; ++k) before[k] += own[k] * static_cast<double>(steps[i]);
  }
  exchange_inside(nodes, {0, 2}, 0, 0);
  for (size_t i = 0; i < 3; ++i) nodes[i]->train(part_of(0, i, steps[i], 0, true));
  exchange_inside(nodes, {1, 2}, 0, 1);
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<double> own = local_values(*nodes[i], 0, steps[i], size);
    for (size_t k = 0; k < size; ++k) after[k] += own[k] * static_cast<double>(steps[i]);
  }
  EXPECT_LE(relative_difference(before, after), 5e-7);
}

// With a codec the group ends with the same bits, close to the mean; what was not sent comes with the next exchange.
TEST(InnerCodec, GroupsEndWithTheSameBitsNearTheMean) {
  const auto with = [](const std::string& codec) {
    return R"({"type": "nested", "group": 2, "inside": {"type": "periodic", "every": 1, "codec": )" + codec +
           R"(}, "across": {"type": "diloco", "every": 8, "codec": "int4"}})";
  };
  const auto values_after_six = [](Replicas& nodes) {
    for (int64_t step = 0; step < 6; ++step) {
      for (size_t i = 0; i < 2; ++i) nodes[i]->train(part_of(0, i, step, 1, true));
      exchange_inside(nodes, {0, 1}, 0, step);
    }
    const size_t size = parameters_of(*nodes[0]).size();
    const ExchangeLayout layout = nodes[0]->replica->inner_layout();
    std::vector<double> values[2];
    for (size_t i = 0; i < 2; ++i) {  // the staged change, or the values themselves
      nodes[i]->train(part_of(0, i, 6, 0, true));
      for (size_t k = 0; k < size; ++k)
        values[i].push_back(static_cast<double>(nodes[i]->row()[k]) / (layout.coded > 0 ? -1.0 : 6.0 * kBatch));
    }
    EXPECT_EQ(values[0], values[1]);
    if (layout.coded > 0) {
      const std::vector<double> result = parameters_of(*nodes[0]);
      for (size_t k = 0; k < size; ++k) values[0][k] += result[k];
    }
    return values[0];
  };
  Replicas dense = make_replicas(2, welcome_to_inner(with("\"fp32\""))), coded = make_replicas(2, welcome_to_inner(with("\"int8\"")));
  EXPECT_EQ(dense[0]->replica->inner_layout().coded, 0u);
  EXPECT_GT(coded[0]->replica->inner_layout().payload_bound, 0u);
  const std::vector<double> expected = values_after_six(dense), found = values_after_six(coded);
  const double far = relative_difference(expected, found);
  EXPECT_LE(far, 2e-3);
  EXPECT_GT(far, 0);
}

// An invalid payload names its sender and changes nothing.
TEST(InnerCodec, RefusesWhatIsNoPayload) {
  Replicas nodes = make_replicas(2, welcome_to_inner(R"({"type": "gossip", "every": 1, "consensus": 4, "codec": "int8"})"));
  for (size_t i = 0; i < 2; ++i) nodes[i]->train(part_of(0, i, 0, 2, true));
  const SharedBytes good = nodes[0]->contribution.payload;
  ASSERT_TRUE(good);
  const auto changed = [&](const std::function<void(std::vector<std::byte>&)>& how) {
    auto bytes = std::make_shared<std::vector<std::byte>>(*nodes[1]->contribution.payload);
    how(*bytes);
    return bytes;
  };
  const std::vector<SharedBytes> bad = {changed([](auto& b) { b.clear(); }), changed([](auto& b) { b.resize(b.size() - 9); }),
                                        changed([](auto& b) { b.back() = std::byte{0xff}; }),  // trained less than nothing
                                        changed([](auto& b) { b[b.size() - 5] = std::byte{1}; })};
  share_rows(nodes, {0, 1});
  for (const SharedBytes& payload : bad) {
    nodes[0]->apply_inner({.round = 0, .index = 0, .payloads = {good, payload}});
    EXPECT_EQ(nodes[0]->refused, 1);
  }
  nodes[0]->apply_inner({.round = 0, .index = 0, .payloads = {good, nodes[1]->contribution.payload}});
  EXPECT_EQ(nodes[0]->refused, -1);
}

// Work that was dropped does not come back with a group's mean that was under way.
TEST(InnerReplica, DroppedWorkStaysDropped) {
  Replicas nodes = make_replicas(2, welcome_to_inner(kNested));
  const std::vector<double> before = parameters_of(*nodes[0]);
  for (size_t i = 0; i < 2; ++i) nodes[i]->train(part_of(0, i, 0, 2, true));
  share_rows(nodes, {0, 1});
  nodes[0]->replica->drop();
  nodes[0]->apply_inner({.round = 0, .index = 0});
  TrainOrder again = part_of(0, 0, 0, 1, true);
  nodes[0]->train(again);
  Replicas fresh = make_replicas(1, welcome_to_inner(kNested));
  fresh[0]->train(again);
  EXPECT_EQ(staged(*nodes[0], before.size()), staged(*fresh[0], before.size()));
}

}  // namespace
}  // namespace perigee
