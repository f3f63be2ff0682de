// Replicas whose codec works on the GPU, on the shim's device, against replicas whose all is on the host: the same payloads, the same results, bit
// for bit, whatever becomes of a round. And how little crosses between host and device.
#include <gtest/gtest.h>

#include <cstring>

#include "cluster/exchange_tail.h"
#include "cluster/fixed_plan.h"
#include "cluster/uv/replica_memory.h"
#include "cluster/uv/replica_trainer.h"
#include "kernels/block_math.h"
#include "src/device/gpu.h"
#include "src/train/device_memory.h"
#include "src/train/device_model.h"

namespace perigee {
namespace {

constexpr int64_t kBatch = 16;

struct NeverGivenUp final : OrderWatch {
  bool given_up() override { return false; }
  void on_step() override {}
  void on_bucket(size_t) override {}
};

struct Job {
  std::string averaging;
  std::string optimizer = R"({"type": "adam", "lr": 0.01})";
  std::string layers = R"([{"type": "conv2d", "out": 4, "kernel": 5, "stride": 2}, {"type": "batchnorm"},
      {"type": "activation", "activation": "relu"}, {"type": "dense", "out": 30, "activation": "relu"}, {"type": "dense", "out": 10}])";
  std::string more;
};

Welcome welcome_to(const Job& job, const std::string& device, WorkerId id) {
  Welcome welcome;
  welcome.id = id;
  welcome.job = R"({"loss": "cross_entropy", "seed": 5, "epochs": 100, "network": {"type": "sequential", "layers": )" + job.layers +
                R"(}, "optimizer": )" + job.optimizer + R"(, "averaging": )" + job.averaging + R"(, "device": ")" + device +
                R"(", "data": {"train": {"type": "digits", "endless": false, "size": 640}, "batch": 16})" + job.more + "}";
  welcome.folder = ".";
  welcome.threads = 1;
  return welcome;
}

class Node {
 public:
  Node(const Job& job, const std::string& device, WorkerId id)
      : id_(id), trainer(welcome_to(job, device, id), {}), row_(trainer.block().layout().bytes()) {
    std::memset(row_.data(), 0, row_.bytes());
  }
  std::byte* row() { return row_.data(); }
  Gpu& gpu() { return trainer.trainer().model_there()->gpu(); }
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

using Nodes = std::vector<std::unique_ptr<Node>>;

Nodes make_nodes(const Job& job, const std::string& device, size_t count) {
  Nodes nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(std::make_unique<Node>(job, device, i + 1));
  return nodes;
}

// What the exchange brings to everybody: the sums behind what is coded, and the payloads.
ApplyOrder gathered(Nodes& nodes, int64_t round) {
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

void merge(Nodes& nodes, const ApplyOrder& order) {
  for (auto& node : nodes) ASSERT_FALSE(node->trainer.apply(order, node->row()));
  for (auto& node : nodes) ASSERT_EQ(node->trainer.hash(), nodes[0]->trainer.hash()) << "round " << order.round;
}

void play(Nodes& nodes, int64_t round, bool gradient) {
  for (auto& node : nodes) node->train(round, gradient, static_cast<int32_t>(nodes.size()));
  merge(nodes, gathered(nodes, round));
}

// Norms of changes and residuals are sums in another order; all else is equal.
void expect_equal(const Nodes& host, const Nodes& device) {
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
void expect_memory_foretold(Node& host, Node& device) {
  DeviceMemory foretold = host.trainer.trainer().planned_device_memory();
  foretold.replica = replica_device_bytes(host.trainer.trainer(), device.gpu().module());
  const auto taken = static_cast<double>(device.gpu().peak());
  EXPECT_NEAR(static_cast<double>(foretold.total()) / taken, 1, 0.05) << foretold.text() << "taken: " << taken;
}

struct Case {
  const char* averaging;
  bool gradient = true, on_device = true;
};

const Case kCases[] = {
    {R"({"type": "threshold", "tau": 1e-3})"},
    {R"({"type": "threshold", "tau": 1e-4, "adaptive": true, "clip": 2, "merge": "mean"})"},
    {R"({"type": "custom", "what": "update", "codec": {"type": "topk", "share": 0.05}})"},
    {R"({"type": "allreduce", "codec": {"type": "int8", "feedback": true}})"},
    {R"({"type": "allreduce", "codec": {"type": "int4", "rounding": "stochastic", "feedback": true}})"},
    {R"({"type": "allreduce", "codec": "int2"})"},
    {R"({"type": "allreduce", "codec": {"type": "bf16", "feedback": true}})"},
    {R"({"type": "allreduce", "codec": {"type": "topk", "share": 0.02, "values": "int8"}})"},
    {R"({"type": "signsgd"})"},
    {R"({"type": "signsgd", "momentum": 0.9})", true, false},
    {R"({"type": "dgc"})", true, false},
    {R"({"type": "periodic", "every": 3, "codec": "int4"})", false},
    {R"({"type": "periodic", "every": 3, "codec": {"type": "threshold", "tau": 1e-3}})", false},
    {R"({"type": "periodic", "every": 3, "codec": {"type": "randomk", "share": 0.2}})", false},
    {R"({"type": "periodic", "every": 3, "codec": "sign", "average_optimizer": true})", false},
    {R"({"type": "periodic", "every": 3, "codec": {"type": "topk", "share": 0.05, "zstd": 1}})", false, false},
    {R"({"type": "diloco", "every": 3, "codec": {"type": "int4", "feedback": true}})", false},
};

TEST(ReplicaOnDevice, PayloadsAndResultsAreTheHosts) {
  for (const Case& each : kCases) {
    SCOPED_TRACE(each.averaging);
    const Job job{.averaging = each.averaging};
    Nodes host = make_nodes(job, "ref", 2), device = make_nodes(job, "cuda:0", 2);
    EXPECT_EQ(device[0]->trainer.coded_on_device(), each.on_device);
    EXPECT_FALSE(host[0]->trainer.coded_on_device());
    for (int64_t round = 0; round < 5; ++round) {
      play(host, round, each.gradient);
      play(device, round, each.gradient);
      expect_equal(host, device);
      if (HasFatalFailure()) return;
    }
    for (size_t i = 0; i < host.size(); ++i) expect_memory_foretold(*host[i], *device[i]);
  }
}

// A round with an exchange inside the group: local values are exchanged by a codec of their own.
void play_inside(Nodes& nodes, int64_t round) {
  for (auto& node : nodes) node->train_part(round, 0, 2, true);
  InnerApplyOrder order{.round = round, .index = 0};
  for (const Payload& payload : gathered(nodes, round).payloads) order.payloads.push_back(payload.bytes);
  ASSERT_EQ(order.payloads.size(), nodes.size());
  for (auto& node : nodes) ASSERT_FALSE(node->trainer.apply_inner(order, node->row()));
  for (auto& node : nodes) node->train_part(round, 2, 2, false);
  merge(nodes, gathered(nodes, round));
}

TEST(ReplicaOnDevice, ExchangesInsideGroupsAreTheHosts) {
  for (const char* codec : {R"("int8")", R"({"type": "int4", "feedback": true})", R"({"type": "topk", "share": 0.1})", R"("bf16")"}) {
    SCOPED_TRACE(codec);
    const Job job{.averaging = R"({"type": "gossip", "every": 2, "consensus": 4, "codec": )" + std::string(codec) + "}"};
    Nodes host = make_nodes(job, "ref", 2), device = make_nodes(job, "cuda:0", 2);
    EXPECT_TRUE(device[0]->trainer.coded_on_device());
    for (int64_t round = 0; round < 3; ++round) {
      play_inside(host, round);
      play_inside(device, round);
      expect_equal(host, device);
      if (HasFatalFailure()) return;
    }
    for (size_t i = 0; i < host.size(); ++i) expect_memory_foretold(*host[i], *device[i]);
  }
}

// A step on several streams is what it is on one: nothing of a round begins before all of them are done.
TEST(ReplicaOnDevice, BranchesChangeNoBit) {
  for (const auto& [averaging, gradient] : {std::pair{R"({"type": "allreduce", "codec": {"type": "int8", "feedback": true}})", true},
                                            {R"({"type": "threshold", "tau": 1e-3})", true},
                                            {R"({"type": "custom", "what": "update", "codec": {"type": "topk", "share": 0.05}})", true},
                                            {R"({"type": "periodic", "every": 3, "codec": "int4"})", false},
                                            {R"({"type": "allreduce"})", true}}) {
    SCOPED_TRACE(averaging);
    const Job job{.averaging = averaging};
    Nodes host = make_nodes(job, "ref", 2);
    setenv("PERIGEE_CUDA_BRANCHES", "3", 1);
    Nodes device = make_nodes(job, "cuda:0", 2);
    for (int64_t round = 0; round < 4; ++round) {
      play(host, round, gradient);
      play(device, round, gradient);
      expect_equal(host, device);
    }
    unsetenv("PERIGEE_CUDA_BRANCHES");
  }
}

// In f16 the loss scale is taken out of a gradient where it lies.
TEST(ReplicaOnDevice, GradientsInF16AreTheHosts) {
  const Job job{.averaging = R"({"type": "allreduce", "codec": "int2"})", .more = R"(, "precision": "fp16")"};
  Nodes host = make_nodes(job, "ref", 2), device = make_nodes(job, "cuda:0", 2);
  for (int64_t round = 0; round < 3; ++round) {
    play(host, round, true);
    play(device, round, true);
    expect_equal(host, device);
  }
}

// Replicas of both kinds train together: a payload of one is a payload of the other.
TEST(ReplicaOnDevice, TrainsWithReplicasOfTheHost) {
  const Job job{.averaging = R"({"type": "threshold", "tau": 1e-3})"};
  Nodes host = make_nodes(job, "ref", 2), mixed;
  mixed.push_back(std::make_unique<Node>(job, "cuda:0", 1));
  mixed.push_back(std::make_unique<Node>(job, "ref", 2));
  for (int64_t round = 0; round < 4; ++round) {
    play(host, round, true);
    play(mixed, round, true);
    expect_equal(host, mixed);
  }
}

// Payloads go up by turns through two buffers.
TEST(ReplicaOnDevice, TakesMorePayloadsThanItHasBuffersFor) {
  const Job job{.averaging = R"({"type": "allreduce", "codec": {"type": "int8", "feedback": true}})"};
  Nodes host = make_nodes(job, "ref", 3), device = make_nodes(job, "cuda:0", 3);
  for (int64_t round = 0; round < 3; ++round) {
    play(host, round, true);
    play(device, round, true);
    expect_equal(host, device);
  }
}

SharedBytes spoilt(const SharedBytes& payload, size_t how) {
  std::vector<std::byte> bytes = *payload;
  if (how == 0) bytes[0] ^= std::byte{0xff};
  else if (how == 1) bytes.resize(bytes.size() - 5);
  else if (how == 2) bytes.resize(7);
  else if (how == 3) bytes.resize(bytes.size() + 4096);
  else std::fill(bytes.begin() + kPayloadHeader, bytes.end(), std::byte{0xff});  // which who reads the body sees
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

// Of a checkpoint's safetensors: the numbers, without what is said of them.
std::vector<std::byte> tensors_of(const std::vector<std::byte>& image) {
  uint64_t header = 0;
  std::memcpy(&header, image.data(), sizeof header);
  return {image.begin() + static_cast<ptrdiff_t>(sizeof header + header), image.end()};
}

// Rounds that come to nothing: a contribution that is given up, a payload that is none, another's result taken in between, a late contribution
// that moves onto the next one, a new beginning.
TEST(ReplicaOnDevice, RoundsThatComeToNothingLeaveWhatTheyLeaveOnTheHost) {
  for (const Case& each : {Case{R"({"type": "threshold", "tau": 1e-3})"}, Case{R"({"type": "allreduce", "codec": "int2"})"},
                           Case{R"({"type": "periodic", "every": 3, "codec": {"type": "int4", "feedback": true}})", false}}) {
    SCOPED_TRACE(each.averaging);
    const Job job{.averaging = each.averaging};
    Nodes host = make_nodes(job, "ref", 2), device = make_nodes(job, "cuda:0", 2);
    const auto both = [&](auto act) {
      act(host), act(device);
      expect_equal(host, device);
    };
    both([&](Nodes& nodes) { play(nodes, 0, each.gradient), play(nodes, 1, each.gradient); });
    // Given up, then the same again: the same payload, and the same behind it, where running statistics are.
    SharedBytes first;
    both([&](Nodes& nodes) {
      const ExchangeLayout layout = nodes[0]->trainer.block().layout();
      const auto behind = [&] { return std::vector<std::byte>(nodes[0]->row() + layout.coded, nodes[0]->row() + layout.bytes()); };
      for (auto& node : nodes) node->train(2, each.gradient, 2);
      first = std::make_shared<const std::vector<std::byte>>(*nodes[0]->contribution.payload);
      const std::vector<std::byte> sums = behind();
      for (auto& node : nodes) node->trainer.drop();
      for (auto& node : nodes) node->train(2, each.gradient, 2);
      EXPECT_EQ(*nodes[0]->contribution.payload, *first);
      EXPECT_EQ(behind(), sums);
    });
    // The second payload is none; then the right ones.
    both([&](Nodes& nodes) {
      const ApplyOrder right = gathered(nodes, 2);
      const uint64_t hash = nodes[0]->trainer.hash();
      for (size_t how = 0; how < 5; ++how) {
        ApplyOrder wrong = right;
        wrong.payloads[1].bytes = spoilt(right.payloads[1].bytes, how);
        EXPECT_EQ(nodes[0]->trainer.apply(wrong, nodes[0]->row()), std::optional<size_t>(1)) << how;
        EXPECT_EQ(nodes[0]->trainer.hash(), hash);
      }
      merge(nodes, right);
    });
    // The first takes another's result, of whose round it had given up its part.
    both([&](Nodes& nodes) {
      for (auto& node : nodes) node->train(3, each.gradient, 2);
      nodes[0]->trainer.drop();
      const ApplyOrder order = gathered(nodes, 3);
      ASSERT_FALSE(nodes[1]->trainer.apply(order, nodes[1]->row()));
      const SharedBytes image = nodes[1]->trainer.snapshot(true);
      ASSERT_TRUE(nodes[0]->trainer.load(3, image.get(), false, nodes[0]->row()));
      EXPECT_EQ(nodes[0]->trainer.hash(), nodes[1]->trainer.hash());
    });
    both([&](Nodes& nodes) { play(nodes, 4, each.gradient); });
    // Told of while there is local work, which is given up then and done again.
    std::vector<std::vector<std::byte>> images;
    both([&](Nodes& nodes) {
      for (auto& node : nodes) node->train(5, each.gradient, 2);
      const uint64_t hash = nodes[0]->trainer.hash();
      const SharedBytes image = nodes[0]->trainer.snapshot(true);
      ASSERT_TRUE(image);
      images.push_back(tensors_of(*image));
      EXPECT_EQ(nodes[0]->trainer.hash(), hash);
      for (auto& node : nodes) node->trainer.drop();
      for (auto& node : nodes) node->train(5, each.gradient, 2);
      merge(nodes, gathered(nodes, 5));
    });
    EXPECT_EQ(images[0], images[1]);
    if (!each.gradient)
      both([&](Nodes& nodes) {
        nodes[0]->train(6, false, 2);
        const SharedBytes image = nodes[1]->trainer.snapshot(true);
        ASSERT_TRUE(nodes[0]->trainer.load(6, image.get(), true, nodes[0]->row()));
        ASSERT_TRUE(nodes[1]->trainer.load(6, image.get(), false, nodes[1]->row()));
        nodes[1]->train(7, false, 2);
        merge(nodes, gathered(nodes, 7));
        // The work goes on from where it was moved to, and is given up there.
        nodes[0]->train(8, false, 2);
        ASSERT_TRUE(nodes[0]->trainer.load(7, nodes[1]->trainer.snapshot(true).get(), true, nodes[0]->row()));
        for (int again = 0; again < 2; ++again) {
          nodes[0]->train(8, false, 2);
          nodes[0]->trainer.drop();
        }
      });
    // Of everybody nothing is counted: what was sent is in no result.
    both([&](Nodes& nodes) {
      for (auto& node : nodes) node->train(8, each.gradient, 2);
      for (auto& node : nodes) ASSERT_FALSE(node->trainer.apply({.round = 8, .examples_after = 9 * 2 * kBatch}, node->row()));
      play(nodes, 9, each.gradient);
    });
    // The parameters of one that had local work alone are the result, bit for bit.
    if (!each.gradient)
      both([&](Nodes& nodes) {
        nodes[0]->train(10, false, 2);
        const ApplyOrder alone{.round = 10, .examples = 3 * kBatch, .examples_after = 11 * 2 * kBatch, .alone = true};
        ASSERT_FALSE(nodes[0]->trainer.apply(alone, nodes[0]->row()));
        const SharedBytes image = nodes[0]->trainer.snapshot(true);
        ASSERT_TRUE(nodes[1]->trainer.load(10, image.get(), false, nodes[1]->row()));
        play(nodes, 11, false);
      });
    both([&](Nodes& nodes) {
      for (auto& node : nodes) ASSERT_TRUE(node->trainer.load(-1, nullptr, false, node->row()));
      play(nodes, 0, each.gradient);
    });
    if (HasFatalFailure()) return;
  }
}

TEST(ReplicaOnDevice, WhatIsTooLargeForTheCodecIsNotSent) {
  for (const char* averaging : {R"({"type": "allreduce", "codec": {"type": "fp16", "feedback": true}})",
                                R"({"type": "custom", "what": "update", "codec": {"type": "fp16", "feedback": true}})"}) {
    // A gradient has its place in 16 bits; what this learning rate makes of it has none.
    const Job job{.averaging = averaging, .optimizer = R"({"type": "sgd", "lr": 1e8})", .layers = R"([{"type": "dense", "out": 10}])"};
    Node node(job, "cuda:0", 1);
    TrainOrder order{.round = 0, .gradient = true, .leaves = 1, .examples_per_step = kBatch};
    order.ranges = {{0, 0, kBatch}};
    std::byte* const rows[] = {node.row()};
    const std::atomic<bool> cancel{false};
    NeverGivenUp watch;
    ASSERT_TRUE(node.trainer.train(order, rows, cancel, watch, &node.contribution));
    const bool update = std::string(averaging).find("update") != std::string::npos;
    EXPECT_EQ(node.contribution.finite, !update);
    EXPECT_EQ(node.contribution.payload == nullptr, update);
  }
}

struct Crossed {
  size_t up = 0, down = 0;
};

// Of one round, once all memory is there.
Crossed traffic_of(const Job& job, bool gradient) {
  Nodes nodes = make_nodes(job, "cuda:0", 2);
  for (int64_t round = 0; round < 3; ++round) play(nodes, round, gradient);
  const Gpu::Traffic before = nodes[0]->gpu().traffic();
  play(nodes, 3, gradient);
  const Gpu::Traffic now = nodes[0]->gpu().traffic();
  return {now.up - before.up, now.down - before.down};
}

TEST(ReplicaOnDevice, NothingButPayloadsCrosses) {
  Job job{.layers = R"([{"type": "dense", "out": 100, "activation": "relu"}, {"type": "batchnorm"}, {"type": "dense", "out": 10}])"};
  const size_t block = Node({.averaging = R"("allreduce")", .layers = job.layers}, "ref", 1).block_bytes();
  for (const Case& each :
       {Case{R"({"type": "threshold", "tau": 3e-3})"}, Case{R"({"type": "allreduce", "codec": {"type": "topk", "share": 0.01}})"},
        Case{R"({"type": "periodic", "every": 3, "codec": {"type": "topk", "share": 0.01}})", false}}) {
    SCOPED_TRACE(each.averaging);
    job.averaging = each.averaging;
    const Crossed crossed = traffic_of(job, each.gradient);
    EXPECT_LT(crossed.down, block / 10);
    EXPECT_LT(crossed.up, block / 5);
    EXPECT_GT(crossed.down, 0u);
  }
}

// Sums of gradients: each way once. A network with running statistics brings up these alone, and parameters are hashed where they are.
TEST(ReplicaOnDevice, DenseGradientsCrossOnce) {
  const Job job{.averaging = R"("allreduce")",
                .layers = R"([{"type": "dense", "out": 100, "activation": "relu"}, {"type": "batchnorm"}, {"type": "dense", "out": 10}])"};
  const size_t block = Node(job, "ref", 1).block_bytes();
  const Crossed crossed = traffic_of(job, true);
  EXPECT_LT(crossed.up, block * 11 / 10);
  EXPECT_LT(crossed.down, block * 11 / 10);
}

// Replicas whose parameters are alike, but not what they keep of their batches, have another hash.
TEST(ReplicaOnDevice, HashesAreOfStatesToo) {
  for (const char* device : {"ref", "cuda:0"}) {
    const auto after_a_round = [&](const std::string& decay) {
      const Job job{
          .averaging = R"({"type": "threshold", "tau": 1e-3})",
          .layers = R"([{"type": "dense", "out": 12}, {"type": "batchnorm", "decay": )" + decay + R"(}, {"type": "dense", "out": 10}])"};
      Nodes nodes = make_nodes(job, device, 1);
      const uint64_t before = nodes[0]->trainer.hash();
      play(nodes, 0, true);
      EXPECT_NE(nodes[0]->trainer.hash(), before);
      return nodes;
    };
    const Nodes slow = after_a_round("0.9"), quick = after_a_round("0.5");
    const auto parameters = [](const Nodes& nodes) {
      const Params& params = nodes[0]->trainer.trainer().model().params();
      return std::vector<std::byte>(params.block(), params.block() + params.block_bytes());
    };
    EXPECT_NE(slow[0]->trainer.hash(), quick[0]->trainer.hash()) << device;
    EXPECT_EQ(parameters(slow), parameters(quick)) << device;
  }
}

}  // namespace
}  // namespace perigee
