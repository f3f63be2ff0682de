// Replicas of a cluster for tests: of the shim's device or of the host, trained and merged round by round without a network between them.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cluster/exchange/exchange_tail.h"
#include "cluster/replica/replica_memory.h"
#include "cluster/replica/replica_trainer.h"
#include "kernels/block_math.h"
#include "src/device/gpu.h"
#include "src/model/device/device_model.h"
#include "src/train/device/device_memory.h"

namespace perigee {

inline constexpr int64_t kBatch = 16;

struct NeverGivenUp final : OrderWatch {
  bool given_up() override { return false; }
  void on_step() override {}
  void on_bucket(size_t) override {}
};

struct ReplicaJob {
  std::string averaging;
  std::string optimizer = R"({"type": "adam", "lr": 0.01})";
  std::string layers = R"([{"type": "conv2d", "out": 4, "kernel": 5, "stride": 2}, {"type": "batchnorm"},
      {"type": "activation", "activation": "relu"}, {"type": "dense", "out": 30, "activation": "relu"}, {"type": "dense", "out": 10}])";
  std::string more;
};

inline Welcome welcome_to(const ReplicaJob& job, const std::string& device, WorkerId id) {
  Welcome welcome;
  welcome.id = id;
  welcome.job = R"({"loss": "cross_entropy", "seed": 5, "epochs": 100, "network": {"type": "sequential", "layers": )" + job.layers +
                R"(}, "optimizer": )" + job.optimizer + R"(, "averaging": )" + job.averaging + R"(, "device": ")" + device +
                R"(", "data": {"train": {"type": "digits", "endless": false, "size": 640}, "batch": 16})" + job.more + "}";
  welcome.folder = ".";
  welcome.threads = 1;
  return welcome;
}

class ReplicaNode {
 public:
  ReplicaNode(const ReplicaJob& job, const std::string& device, WorkerId id)
      : id_(id), trainer(welcome_to(job, device, id), {}), row_(trainer.block().layout().bytes()) {
    std::memset(row_.data(), 0, row_.bytes());
  }
  std::byte* row() { return row_.data(); }
  Gpu& gpu() { return trainer.trainer().device_model()->gpu(); }
  size_t block_bytes() { return trainer.trainer().shape().params().block_bytes(); }

  // So many local steps of a round of four, and then an exchange inside a group or that of all.
  void train_part(int64_t round, int64_t begun, int64_t steps, bool inner) {
    TrainOrder order{.round = round, .carried = begun * kBatch, .inner = inner};
    for (int64_t step = begun; step < begun + steps; ++step)
      order.ranges.push_back({static_cast<uint64_t>(round), (static_cast<int64_t>(id_) - 1) * 128 + step * kBatch, kBatch});
    std::byte* const rows[] = {row()};
    ASSERT_TRUE(trainer.train(order, rows, cancel_, watch_, &contribution));
    ASSERT_TRUE(contribution.finite);
  }

  // A gradient, or three local steps less the worker's number.
  void train(int64_t round, bool gradient, int32_t workers) {
    const auto own = static_cast<int64_t>(id_) - 1;
    TrainOrder order{.round = round,
                     .gradient = gradient,
                     .first_leaf = gradient ? static_cast<int32_t>(own) : 0,
                     .leaves = gradient ? workers : 1,
                     .examples_before = round * kBatch * workers,
                     .examples_per_step = kBatch * workers};
    for (int64_t step = 0; step < (gradient ? 1 : 3 - own); ++step)
      order.ranges.push_back({static_cast<uint64_t>(round / 6), round % 6 * 96 + own * 48 + step * kBatch, kBatch});
    std::byte* const rows[] = {row()};
    ASSERT_TRUE(trainer.train(order, rows, cancel_, watch_, &contribution));
    ASSERT_TRUE(contribution.finite);
  }

 private:
  WorkerId id_;

 public:
  ReplicaTrainer trainer;
  Contribution contribution;

 private:
  Storage row_;
  std::atomic<bool> cancel_{false};
  NeverGivenUp watch_;
};

using ReplicaNodes = std::vector<std::unique_ptr<ReplicaNode>>;

inline ReplicaNodes make_nodes(const ReplicaJob& job, const std::string& device, size_t count) {
  ReplicaNodes nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(std::make_unique<ReplicaNode>(job, device, i + 1));
  return nodes;
}

// The exchange's result for all members: the sums behind what is coded, and the payloads.
inline ApplyOrder gathered(ReplicaNodes& nodes, int64_t round) {
  const ExchangeLayout layout = nodes[0]->trainer.block().layout();
  ApplyOrder order{.round = round};
  std::vector<std::byte> sum;
  for (auto& node : nodes) {
    if (sum.empty()) sum.assign(node->row(), node->row() + layout.bytes());
    else {
      block_math(layout.dtype).add(sum.data(), node->row(), layout.sums, sum.data());
      auto* const maxima = reinterpret_cast<int64_t*>(sum.data() + layout.sum_bytes());
      const auto* const other = reinterpret_cast<const int64_t*>(node->row() + layout.sum_bytes());
      for (int64_t i = 0; i < layout.maxima; ++i) maxima[i] = std::max(maxima[i], other[i]);
    }
    order.examples += node->contribution.examples;
    if (node->contribution.payload) order.payloads.push_back({node->contribution.payload, node->contribution.examples});
  }
  order.examples_after = (round + 1) * order.examples;
  for (auto& node : nodes)
    std::copy(sum.begin() + static_cast<ptrdiff_t>(layout.coded), sum.end(), node->row() + static_cast<ptrdiff_t>(layout.coded));
  return order;
}

inline void merge(ReplicaNodes& nodes, const ApplyOrder& order) {
  for (auto& node : nodes) ASSERT_FALSE(node->trainer.apply(order, node->row()));
  for (auto& node : nodes) ASSERT_EQ(node->trainer.hash(), nodes[0]->trainer.hash()) << "round " << order.round;
}

inline void play(ReplicaNodes& nodes, int64_t round, bool gradient) {
  for (auto& node : nodes) node->train(round, gradient, static_cast<int32_t>(nodes.size()));
  merge(nodes, gathered(nodes, round));
}

// Norms of changes and residuals are sums in another order; all else is equal.
inline void expect_equal(const ReplicaNodes& host, const ReplicaNodes& device) {
  for (size_t i = 0; i < host.size(); ++i) {
    const Contribution &a = host[i]->contribution, &b = device[i]->contribution;
    ASSERT_EQ(a.payload != nullptr, b.payload != nullptr);
    if (a.payload) {
      ASSERT_EQ(*a.payload, *b.payload) << "of worker " << i;
    }
    ASSERT_EQ(host[i]->trainer.hash(), device[i]->trainer.hash());
    const auto near = [](double x, double y) { EXPECT_NEAR(x, y, 1e-9 * std::abs(x)); };
    near(a.figures.residual_square, b.figures.residual_square);
    near(a.norms.change, b.norms.change);
    near(a.norms.parameters, b.norms.parameters);
    near(a.norms.merged, b.norms.merged);
    near(a.norms.residual, b.norms.residual);
  }
}

// By who knows of no GPU: what the trainer takes, and what the replica does beside it.
inline void expect_memory_foretold(ReplicaNode& host, ReplicaNode& device) {
  DeviceMemory foretold = host.trainer.trainer().planned_device_memory();
  foretold.replica = replica_device_bytes(host.trainer.trainer(), device.gpu().module());
  const auto taken = static_cast<double>(device.gpu().peak());
  EXPECT_NEAR(static_cast<double>(foretold.total()) / taken, 1, 0.05) << foretold.text() << "taken: " << taken;
}

}  // namespace perigee
