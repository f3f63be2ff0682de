// How little crosses between host and device where a replica's codec works on the GPU, and what its hash is of.
#include <utility>

#include "tests/cuda/replica_site.h"

namespace perigee {
namespace {

struct Crossed {
  size_t up = 0, down = 0;
};

// The traffic of one round, once all memory is allocated.
Crossed traffic_of(const ReplicaJob& job, bool gradient) {
  ReplicaNodes nodes = make_nodes(job, "cuda:0", 2);
  for (int64_t round = 0; round < 3; ++round) play(nodes, round, gradient);
  const Gpu::Traffic before = nodes[0]->gpu().traffic();
  play(nodes, 3, gradient);
  const Gpu::Traffic now = nodes[0]->gpu().traffic();
  return {now.up - before.up, now.down - before.down};
}

TEST(ReplicaOnDevice, NothingButPayloadsCrosses) {
  ReplicaJob job{.layers = R"([{"type": "dense", "out": 100, "activation": "relu"}, {"type": "batchnorm"}, {"type": "dense", "out": 10}])"};
  const size_t block = ReplicaNode({.averaging = R"("allreduce")", .layers = job.layers}, "ref", 1).block_bytes();
  for (const auto& [averaging, gradient] : {std::pair{R"({"type": "threshold", "tau": 3e-3})", true},
                                            {R"({"type": "allreduce", "codec": {"type": "topk", "share": 0.01}})", true},
                                            {R"({"type": "periodic", "every": 3, "codec": {"type": "topk", "share": 0.01}})", false}}) {
    SCOPED_TRACE(averaging);
    job.averaging = averaging;
    const Crossed crossed = traffic_of(job, gradient);
    EXPECT_LT(crossed.down, block / 10);
    EXPECT_LT(crossed.up, block / 5);
    EXPECT_GT(crossed.down, 0u);
  }
}

// Sums of gradients: each way once. A network with running statistics brings up these alone, and parameters are hashed where they are.
TEST(ReplicaOnDevice, DenseGradientsCrossOnce) {
  const ReplicaJob job{
      .averaging = R"("allreduce")",
      .layers = R"([{"type": "dense", "out": 100, "activation": "relu"}, {"type": "batchnorm"}, {"type": "dense", "out": 10}])"};
  const size_t block = ReplicaNode(job, "ref", 1).block_bytes();
  const Crossed crossed = traffic_of(job, true);
  EXPECT_LT(crossed.up, block * 11 / 10);
  EXPECT_LT(crossed.down, block * 11 / 10);
}

// Replicas whose parameters are alike, but not what they keep of their batches, have another hash.
TEST(ReplicaOnDevice, HashesAreOfStatesToo) {
  for (const char* device : {"ref", "cuda:0"}) {
    const auto after_a_round = [&](const std::string& decay) {
      const ReplicaJob job{
          .averaging = R"({"type": "threshold", "tau": 1e-3})",
          .layers = R"([{"type": "dense", "out": 12}, {"type": "batchnorm", "decay": )" + decay + R"(}, {"type": "dense", "out": 10}])"};
      ReplicaNodes nodes = make_nodes(job, device, 1);
      const uint64_t before = nodes[0]->trainer.hash();
      play(nodes, 0, true);
      EXPECT_NE(nodes[0]->trainer.hash(), before);
      return nodes;
    };
    const ReplicaNodes slow = after_a_round("0.9"), quick = after_a_round("0.5");
    const auto parameters = [](const ReplicaNodes& nodes) {
      const Params& params = nodes[0]->trainer.trainer().model().params();
      return std::vector<std::byte>(params.block(), params.block() + params.block_bytes());
    };
    EXPECT_NE(slow[0]->trainer.hash(), quick[0]->trainer.hash()) << device;
    EXPECT_EQ(parameters(slow), parameters(quick)) << device;
  }
}

}  // namespace
}  // namespace perigee
