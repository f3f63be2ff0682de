// Jobs of replicas, and rounds of them by gradients and by local steps.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cluster/replica/replica_harness.h"

namespace perigee {

inline constexpr const char* kLenet =
    R"([{"type": "conv2d", "out": 20, "kernel": 5, "activation": "relu"}, {"type": "maxpool", "kernel": 2},
    {"type": "conv2d", "out": 50, "kernel": 5, "stride": 2, "activation": "relu"}, {"type": "maxpool", "kernel": 2},
    {"type": "dense", "out": 200, "activation": "relu"}, {"type": "dense", "out": 10}])";
inline constexpr const char* kTiny = R"([{"type": "avgpool", "kernel": 7}, {"type": "dense", "out": 10}])";
inline constexpr const char* kNormed = R"([{"type": "conv2d", "out": 4, "kernel": 5, "stride": 2}, {"type": "batchnorm"},
    {"type": "activation", "activation": "relu"}, {"type": "dropout", "rate": 0.3}, {"type": "dense", "out": 10}])";
inline constexpr const char* kNet64 = R"([{"type": "conv2d", "out": 4, "kernel": 5, "stride": 4, "activation": "tanh"},
    {"type": "dense", "out": 20, "activation": "relu"}, {"type": "dense", "out": 10}])";
inline constexpr const char* kAdam = R"({"type": "adamw", "lr": {"type": "cosine", "from": 0.002}, "weight_decay": 0.0005})";

// models/lenet.lua's data where they are; else the digits that stand in for them.
inline std::string data_of(const std::string& part, int size) {
  if (std::getenv("PERIGEE_DATA"))
    return R"({"type": "take", "count": )" + std::to_string(size) + R"(, "source": {"type": "mnist", "part": ")" + part + R"("}})";
  return R"({"type": "digits", "endless": false, "size": )" + std::to_string(size) + "}";
}

inline Welcome welcome_to(const std::string& layers, const std::string& optimizer, const std::string& averaging,
                          const std::string& more = "", const std::string& train = R"({"type": "digits", "endless": false, "size": 640})") {
  Welcome welcome;
  welcome.job = R"({"loss": "cross_entropy", "seed": 5, "epochs": 100, "network": {"type": "sequential", "layers": )" + layers +
                R"(}, "optimizer": )" + optimizer + R"(, "averaging": )" + averaging + R"(, "data": {"train": )" + train +
                R"(, "batch": 32})" + more + "}";
  welcome.folder = ".";
  welcome.threads = 1;
  return welcome;
}

inline TrainOrder gradient_order(const FixedPlan::Round& round, int64_t number, int rank, int size, int leaves) {
  const auto [first, last] = leaves_of(rank, size, leaves);
  return {.round = number,
          .gradient = true,
          .ranges = {round.ranges.begin() + first, round.ranges.begin() + last},
          .first_leaf = first,
          .leaves = leaves,
          .examples_before = round.examples_before};
}

// Trains by gradients; returns the hash after each round.
inline std::vector<uint64_t> train_allreduce(Replicas& nodes, int rounds, int leaves, int64_t global, int64_t size,
                                             int64_t first_round = 0) {
  FixedPlan plan{.examples_per_epoch = size, .planned = 100 * size, .global = global, .leaves = leaves};
  std::vector<uint64_t> hashes;
  for (int64_t r = first_round; r < first_round + rounds; ++r) {
    const FixedPlan::Round round = plan.at(r);
    const int count = static_cast<int>(nodes.size());
    for (int i = 0; i < count; ++i) nodes[i]->start(gradient_order(round, r, i, count, leaves));
    for (auto& node : nodes) {
      EXPECT_TRUE(node->finish().finite);
      EXPECT_FALSE(node->failed) << node->failure;
    }
    exchange(nodes, leaves);
    EXPECT_EQ(nodes[0]->tail().examples, round.examples);
    EXPECT_EQ(nodes[0]->tail().contributions, count);
    for (auto& node : nodes) node->apply(r, round.examples, round.examples_before + round.examples);
    for (auto& node : nodes) EXPECT_EQ(node->hash, nodes[0]->hash) << "round " << r;
    hashes.push_back(nodes[0]->hash);
  }
  return hashes;
}

inline TrainOrder local_order(int64_t round, std::vector<Range> ranges, int64_t before = 0, int64_t per_step = 32) {
  return {.round = round, .ranges = std::move(ranges), .examples_before = before, .examples_per_step = per_step};
}

// Weighted mean of what the nodes staged, for all of them.
inline int64_t merge_values(Replicas& nodes) {
  const ExchangeLayout layout = nodes[0]->replica->layout();
  std::vector<std::byte> sum;
  for (auto& node : nodes) {
    if (!node->contribution.finite || node->contribution.examples == 0) continue;
    const std::span<std::byte> row = node->replica->exchange_row(0);
    if (sum.empty()) sum.assign(row.begin(), row.end());
    else add_row(layout, sum.data(), row.data());
  }
  for (auto& node : nodes) std::memcpy(node->replica->exchange_row(0).data(), sum.data(), sum.size());
  return nodes[0]->tail().examples;
}

}  // namespace perigee
