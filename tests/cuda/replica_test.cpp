// Replicas whose codec works on the GPU, on the shim's device, against replicas whose all is on the host: the same payloads, the same results, bit
// for bit, whatever becomes of a round.
#include <cstdlib>
#include <utility>

#include "tests/cuda/replica_site.h"

namespace perigee {
namespace {

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
    const ReplicaJob job{.averaging = each.averaging};
    ReplicaNodes host = make_nodes(job, "ref", 2), device = make_nodes(job, "cuda:0", 2);
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
void play_inside(ReplicaNodes& nodes, int64_t round) {
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
    const ReplicaJob job{.averaging = R"({"type": "gossip", "every": 2, "consensus": 4, "codec": )" + std::string(codec) + "}"};
    ReplicaNodes host = make_nodes(job, "ref", 2), device = make_nodes(job, "cuda:0", 2);
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
    const ReplicaJob job{.averaging = averaging};
    ReplicaNodes host = make_nodes(job, "ref", 2);
    setenv("PERIGEE_CUDA_BRANCHES", "3", 1);
    ReplicaNodes device = make_nodes(job, "cuda:0", 2);
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
  const ReplicaJob job{.averaging = R"({"type": "allreduce", "codec": "int2"})", .more = R"(, "precision": "fp16")"};
  ReplicaNodes host = make_nodes(job, "ref", 2), device = make_nodes(job, "cuda:0", 2);
  for (int64_t round = 0; round < 3; ++round) {
    play(host, round, true);
    play(device, round, true);
    expect_equal(host, device);
  }
}

// Replicas of both kinds train together: a payload of one is a payload of the other.
TEST(ReplicaOnDevice, TrainsWithReplicasOfTheHost) {
  const ReplicaJob job{.averaging = R"({"type": "threshold", "tau": 1e-3})"};
  ReplicaNodes host = make_nodes(job, "ref", 2), mixed;
  mixed.push_back(std::make_unique<ReplicaNode>(job, "cuda:0", 1));
  mixed.push_back(std::make_unique<ReplicaNode>(job, "ref", 2));
  for (int64_t round = 0; round < 4; ++round) {
    play(host, round, true);
    play(mixed, round, true);
    expect_equal(host, mixed);
  }
}

// Payloads go up by turns through two buffers.
TEST(ReplicaOnDevice, TakesMorePayloadsThanItHasBuffersFor) {
  const ReplicaJob job{.averaging = R"({"type": "allreduce", "codec": {"type": "int8", "feedback": true}})"};
  ReplicaNodes host = make_nodes(job, "ref", 3), device = make_nodes(job, "cuda:0", 3);
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

// The tensors of a checkpoint's safetensors, without the metadata.
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
    const ReplicaJob job{.averaging = each.averaging};
    ReplicaNodes host = make_nodes(job, "ref", 2), device = make_nodes(job, "cuda:0", 2);
    const auto both = [&](auto act) {
      act(host), act(device);
      expect_equal(host, device);
    };
    both([&](ReplicaNodes& nodes) { play(nodes, 0, each.gradient), play(nodes, 1, each.gradient); });
    // Given up, then the same again: the same payload, and the same behind it, where running statistics are.
    SharedBytes first;
    both([&](ReplicaNodes& nodes) {
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
    both([&](ReplicaNodes& nodes) {
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
    both([&](ReplicaNodes& nodes) {
      for (auto& node : nodes) node->train(3, each.gradient, 2);
      nodes[0]->trainer.drop();
      const ApplyOrder order = gathered(nodes, 3);
      ASSERT_FALSE(nodes[1]->trainer.apply(order, nodes[1]->row()));
      const SharedBytes image = nodes[1]->trainer.snapshot(true);
      ASSERT_TRUE(nodes[0]->trainer.load(3, image.get(), false, nodes[0]->row()));
      EXPECT_EQ(nodes[0]->trainer.hash(), nodes[1]->trainer.hash());
    });
    both([&](ReplicaNodes& nodes) { play(nodes, 4, each.gradient); });
    // Told of while there is local work, which is given up then and done again.
    std::vector<std::vector<std::byte>> images;
    both([&](ReplicaNodes& nodes) {
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
      both([&](ReplicaNodes& nodes) {
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
    // No worker's contribution counts: it is in no result.
    both([&](ReplicaNodes& nodes) {
      for (auto& node : nodes) node->train(8, each.gradient, 2);
      for (auto& node : nodes) ASSERT_FALSE(node->trainer.apply({.round = 8, .examples_after = 9 * 2 * kBatch}, node->row()));
      play(nodes, 9, each.gradient);
    });
    // The parameters of one that had local work alone are the result, bit for bit.
    if (!each.gradient)
      both([&](ReplicaNodes& nodes) {
        nodes[0]->train(10, false, 2);
        const ApplyOrder alone{.round = 10, .examples = 3 * kBatch, .examples_after = 11 * 2 * kBatch, .alone = true};
        ASSERT_FALSE(nodes[0]->trainer.apply(alone, nodes[0]->row()));
        const SharedBytes image = nodes[0]->trainer.snapshot(true);
        ASSERT_TRUE(nodes[1]->trainer.load(10, image.get(), false, nodes[1]->row()));
        play(nodes, 11, false);
      });
    both([&](ReplicaNodes& nodes) {
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
    const ReplicaJob job{
        .averaging = averaging, .optimizer = R"({"type": "sgd", "lr": 1e8})", .layers = R"([{"type": "dense", "out": 10}])"};
    ReplicaNode node(job, "cuda:0", 1);
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

}  // namespace
}  // namespace perigee
