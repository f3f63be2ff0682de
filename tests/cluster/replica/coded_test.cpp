// Rounds whose changes travel through a codec: every replica adds the same payloads to the same bits; what was not sent stays with its
// worker, whatever becomes of a round.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "cluster/codec/delta_codec.h"
#include "src/run/checkpoint.h"
#include "tests/cluster/replica/replica_harness.h"

namespace perigee {
namespace {

// ---- what a worker keeps ----

constexpr int64_t kElements = 5000;

std::vector<float> normal(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> values(0, 0.01f);
  std::vector<float> all(kElements);
  for (float& value : all) value = values(random);
  return all;
}

DeltaCodec delta_codec(const std::string& spec) {
  const Json json = Json::parse(spec, "test");
  return {make_codec(&json, "test"), kElements, 5, 2};
}

std::vector<float> decoded(DeltaCodec& codec, const SharedBytes& payload) {
  std::vector<float> values(kElements);
  EXPECT_TRUE(codec.add(*payload, 1, values));
  return values;
}

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

const char* const kWithFeedback[] = {R"({"type": "int8", "feedback": true})",
                                     R"({"type": "int4", "rounding": "stochastic", "feedback": true})",
                                     R"("int2")",
                                     R"("sign")",
                                     R"({"type": "topk", "share": 0.02})",
                                     R"({"type": "randomk", "share": 0.05})",
                                     R"({"type": "threshold", "tau": 0.01, "adapt": "range"})",
                                     R"({"type": "bf16", "feedback": true})",
                                     R"({"type": "int4", "feedback": true, "zstd": 1})"};

// U4: what was sent and what is left is what was handed in.
TEST(DeltaCodec, SentAndResidualAreWhatWasHandedIn) {
  for (const char* spec : kWithFeedback) {
    DeltaCodec codec = delta_codec(spec);
    std::vector<double> handed_in(kElements), sent(kElements);
    for (unsigned round = 0; round < 12; ++round) {
      const std::vector<float> values = normal(round);
      const SharedBytes payload = codec.encode(values, round);
      ASSERT_TRUE(payload) << spec;
      EXPECT_LE(payload->size(), codec.bound());
      if (round % 3 == 2) {  // a round that came to nothing
        codec.drop();
        continue;
      }
      codec.settle(true);
      const std::vector<float> now = decoded(codec, payload);
      for (size_t i = 0; i < values.size(); ++i) handed_in[i] += values[i], sent[i] += now[i];
    }
    double worst = 0, scale = 0;
    for (size_t i = 0; i < handed_in.size(); ++i) {
      worst = std::max(worst, std::abs(sent[i] + codec.residual()[i] - handed_in[i]));
      scale = std::max(scale, std::abs(handed_in[i]));
    }
    EXPECT_LE(worst, 1e-5 * scale) << spec;
  }
}

TEST(DeltaCodec, AVoidRoundLeavesNoTrace) {
  for (const char* spec : kWithFeedback) {
    DeltaCodec codec = delta_codec(spec), undisturbed = delta_codec(spec);
    for (unsigned round = 0; round < 4; ++round) {
      ASSERT_TRUE(codec.encode(normal(100 + round), round)) << spec;
      if (round % 2) codec.drop();
      else codec.settle(false);
      const SharedBytes again = codec.encode(normal(round), round), expected = undisturbed.encode(normal(round), round);
      EXPECT_EQ(*again, *expected) << spec;
      codec.settle(true), undisturbed.settle(true);
      EXPECT_EQ(copy_of(codec.residual()), copy_of(undisturbed.residual())) << spec;
    }
  }
}

// Who takes another's result cannot know whether its last payload is in it: that payload must not be sent again.
TEST(DeltaCodec, WhatMayHaveBeenCountedIsNotSentAgain) {
  DeltaCodec codec = delta_codec(R"({"type": "topk", "share": 0.02})");
  const std::vector<float> values = normal(1);
  const SharedBytes payload = codec.encode(values, 0);
  codec.drop();
  EXPECT_EQ(copy_of(codec.residual()), std::vector<float>(kElements));
  codec.overtaken();
  const std::vector<float> sent = decoded(codec, payload);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(sent[i] + codec.residual()[i], values[i]);
  // But one that was given up before a result of this worker's own is settled.
  const std::vector<float> before = copy_of(codec.residual());
  codec.encode(normal(2), 1);
  codec.drop();
  codec.settle(false);
  codec.overtaken();
  EXPECT_EQ(copy_of(codec.residual()), before);
}

TEST(DeltaCodec, WhatCannotBeEncodedChangesNothing) {
  DeltaCodec codec = delta_codec(R"({"type": "fp16", "feedback": true})");
  ASSERT_TRUE(codec.encode(normal(1), 0));
  codec.settle(true);
  const std::vector<float> before = copy_of(codec.residual());
  for (const float wrong : {1e6f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = normal(2);
    values[77] = wrong;
    EXPECT_FALSE(codec.encode(values, 1)) << wrong;
    EXPECT_EQ(copy_of(codec.residual()), before);
    codec.settle(false);
    codec.overtaken();
    EXPECT_EQ(copy_of(codec.residual()), before);
  }
}

// ---- replicas ----

const char* const kLayers = R"([{"type": "conv2d", "out": 4, "kernel": 5, "stride": 2}, {"type": "batchnorm"},
    {"type": "activation", "activation": "relu"}, {"type": "dense", "out": 30, "activation": "relu"}, {"type": "dense", "out": 10}])";

Welcome welcome_with(const std::string& codec, const std::string& more = "") {
  Welcome welcome;
  welcome.job = std::string(R"({"loss": "cross_entropy", "seed": 5, "epochs": 100, "network": {"type": "sequential", "layers": )") +
                kLayers + R"(}, "optimizer": {"type": "sgd", "lr": 0.05}, "averaging": {"type": "periodic", "every": 4)" +
                (codec.empty() ? "" : R"(, "codec": )" + codec) +
                R"(}, "data": {"train": {"type": "digits", "endless": false, "size": 640}, "batch": 32})" + more + "}";
  welcome.folder = ".";
  welcome.threads = 1;
  return welcome;
}

Replicas make_workers(int count, const std::string& codec) {
  Replicas nodes;
  for (int i = 0; i < count; ++i) {
    Welcome welcome = welcome_with(codec);
    welcome.id = static_cast<WorkerId>(i + 1);
    nodes.push_back(std::make_unique<TestReplica>(welcome));
    EXPECT_FALSE(nodes.back()->failed) << nodes.back()->failure;
  }
  return nodes;
}

// Worker i makes 4 - i steps.
void train_coded(Replicas& nodes, int64_t round, size_t workers) {
  for (size_t i = 0; i < workers; ++i) {
    TrainOrder order{.round = round, .examples_before = round * 288, .examples_per_step = 32};
    for (size_t step = 0; step + i < 4; ++step)
      order.ranges.push_back({static_cast<uint64_t>(round), static_cast<int64_t>((i * 4 + step) * 32), 32});
    nodes[i]->start(order);
  }
  for (size_t i = 0; i < workers; ++i) ASSERT_TRUE(nodes[i]->finish().finite);
}

// The exchange's result for all members.
ApplyOrder gathered(Replicas& nodes, int64_t round, size_t workers) {
  const ExchangeLayout layout = nodes[0]->replica->layout();
  ApplyOrder order{.round = round};
  std::vector<std::byte> sum;
  for (size_t i = 0; i < workers; ++i) {
    const std::span<std::byte> row = nodes[i]->replica->exchange_row(0);
    if (sum.empty()) sum.assign(row.begin(), row.end());
    else add_row(layout, sum.data(), row.data());
    const Contribution& contribution = nodes[i]->contribution;
    EXPECT_EQ(contribution.payload != nullptr, layout.coded > 0);
    order.examples += contribution.examples;
    if (contribution.payload) order.payloads.push_back({contribution.payload, contribution.examples});
  }
  order.examples_after = (round + 1) * order.examples;
  for (auto& node : nodes) {
    const std::span<std::byte> row = node->replica->exchange_row(0);
    std::copy(sum.begin() + static_cast<ptrdiff_t>(layout.coded), sum.end(), row.begin() + static_cast<ptrdiff_t>(layout.coded));
  }
  return order;
}

void average(Replicas& nodes, int64_t round, size_t workers) {
  train_coded(nodes, round, workers);
  const ApplyOrder order = gathered(nodes, round, workers);
  for (auto& node : nodes) node->apply(order);
  for (auto& node : nodes) EXPECT_EQ(node->hash, nodes[0]->hash) << "round " << round;
}

double loss_of(const Replicas& nodes) {
  return nodes[0]->contribution.figures.loss_sum / static_cast<double>(nodes[0]->contribution.examples);
}

// fp32 loses nothing: what is left is the rounding of another order of additions.
TEST(Coded, WithoutLossItIsTheMeanOfTheParameters) {
  Replicas coded = make_workers(3, R"({"type": "fp32", "feedback": true})"), dense = make_workers(3, "");
  EXPECT_GT(coded[0]->replica->layout().coded, 0u);
  EXPECT_EQ(dense[0]->replica->layout().coded, 0u);
  for (int64_t round = 0; round < 3; ++round) {
    average(coded, round, 3);
    average(dense, round, 3);
    EXPECT_LE(relative_difference(parameters_of(*dense[0]), parameters_of(*coded[0])), 1e-6) << "round " << round;
  }
}

// A matrix of full rank would not become smaller: each is sent as it is.
TEST(Coded, LowRankOfFullRankIsTheMeanOfTheParameters) {
  Replicas coded = make_workers(3, R"({"type": "lowrank", "rank": 256})"), dense = make_workers(3, "");
  for (int64_t round = 0; round < 3; ++round) {
    average(coded, round, 3);
    average(dense, round, 3);
    EXPECT_LE(relative_difference(parameters_of(*dense[0]), parameters_of(*coded[0])), 1e-6) << "round " << round;
  }
  EXPECT_LT(make_workers(1, R"({"type": "lowrank", "rank": 1})")[0]->replica->layout().payload_bound,
            coded[0]->replica->layout().payload_bound / 2);
}

TEST(Coded, PlainFp32IsTheDenseSum) {
  EXPECT_EQ(make_workers(1, R"("fp32")")[0]->replica->layout().coded, 0u);
  EXPECT_EQ(make_workers(1, "null")[0]->replica->layout().coded, 0u);
}

// Two train, the third has no work and only receives.
TEST(Coded, EveryCodecTrainsAndReplicasStayEqual) {
  for (const char* codec :
       {R"("bf16")", R"("fp16")", R"("int8")", R"("int4")", R"({"type": "int4", "rounding": "stochastic", "feedback": true})", R"("int2")",
        R"("sign")", R"({"type": "topk", "share": 0.05})", R"({"type": "topk", "share": 0.1, "values": "int8", "zstd": 1})",
        R"({"type": "randomk", "share": 0.3})", R"({"type": "threshold", "tau": 0.003})", R"("lowrank")",
        R"({"type": "lowrank", "rank": 1, "zstd": 1})"}) {
    SCOPED_TRACE(codec);
    Replicas nodes = make_workers(3, codec);
    average(nodes, 0, 2);
    const double first = loss_of(nodes);
    for (int64_t round = 1; round < 12; ++round) average(nodes, round, 2);
    EXPECT_LT(loss_of(nodes), 0.8 * first);
  }
}

// The block's gaps are zero, and what is frozen stays what it was, though these codecs make something of nothing.
TEST(Coded, NothingAppearsBetweenTheTensors) {
  Replicas nodes = make_workers(2, R"({"type": "sign", "block": 4096})");
  for (int64_t round = 0; round < 3; ++round) average(nodes, round, 2);
  const LoadedModel loaded = load_model(*nodes[0]->snapshot(false), "snapshot");
  Params& params = loaded.model->params();
  std::vector<bool> used(static_cast<size_t>(params.block_elements()));
  for (const ParamWindow& window : params.windows()) std::fill_n(used.begin() + window.offset, window.elements, true);
  const std::span<const float> values = params.values<float>();
  for (size_t i = 0; i < used.size(); ++i) EXPECT_TRUE(used[i] || values[i] == 0) << i;
  // A file holds tensors, not gaps: a replica that loads it must come to the hash of one that computed it.
  nodes.push_back(std::make_unique<TestReplica>(welcome_with(R"("sign")")));
  EXPECT_EQ(nodes[2]->load(2, nodes[0]->snapshot()), nodes[0]->hash);
}

TEST(Coded, APayloadThatIsNoneChangesNothing) {
  Replicas nodes = make_workers(2, R"("int4")");
  average(nodes, 0, 2);
  const uint64_t hash = nodes[0]->hash;
  train_coded(nodes, 1, 2);
  const ApplyOrder right = gathered(nodes, 1, 2);
  for (size_t cut = 0; cut < 40; cut += 13) {
    ApplyOrder wrong = right;
    std::vector<std::byte> bytes = *right.payloads[1].bytes;
    if (cut == 0) bytes[0] ^= std::byte{0xff};
    else bytes.resize(bytes.size() - cut);
    wrong.payloads[1].bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    nodes[0]->apply(wrong);
    EXPECT_EQ(nodes[0]->refused, 1);
    nodes[0]->snapshot();
    EXPECT_EQ(nodes[0]->image_hash, hash);
    EXPECT_EQ(nodes[0]->image_round, 0);
  }
  for (auto& node : nodes) node->apply(right);
  EXPECT_EQ(nodes[0]->hash, nodes[1]->hash);
  EXPECT_NE(nodes[0]->hash, hash);
  average(nodes, 2, 2);
}

// A contribution that is given up is as if it had never been: the same order gives the same payload again.
TEST(Coded, AContributionThatIsGivenUpLeavesNoTrace) {
  Replicas nodes = make_workers(2, R"("int2")");
  average(nodes, 0, 2);
  train_coded(nodes, 1, 2);
  const std::vector<std::byte> first = *nodes[0]->contribution.payload;
  nodes[0]->replica->drop();
  train_coded(nodes, 1, 1);
  EXPECT_EQ(*nodes[0]->contribution.payload, first);
}

// A late worker's payload is what it did since the result that it started from; it goes into the next round as it is.
TEST(Coded, ALateContributionMovesOntoTheNextResult) {
  Replicas nodes = make_workers(3, R"({"type": "fp32", "feedback": true})");
  average(nodes, 0, 3);
  const std::vector<double> base = parameters_of(*nodes[2]);
  train_coded(nodes, 1, 3);
  const Contribution late = nodes[2]->contribution;
  Replicas two;
  two.push_back(std::move(nodes[0])), two.push_back(std::move(nodes[1]));
  const ApplyOrder order = gathered(two, 1, 2);
  for (auto& node : two) node->apply(order);
  nodes[2]->load(1, two[0]->snapshot(), true);
  EXPECT_EQ(nodes[2]->hash, two[0]->hash);
  const std::vector<double> global = parameters_of(*two[0]);

  // The next round is its alone, the others have no work: the result is the global parameters less its change.
  Replicas all;
  all.push_back(std::move(nodes[2])), all.push_back(std::move(two[0])), all.push_back(std::move(two[1]));
  all[0]->contribution = late;
  const ApplyOrder next = gathered(all, 2, 1);
  for (auto& node : all) node->apply(next);
  EXPECT_EQ(all[0]->hash, all[1]->hash);
  EXPECT_EQ(all[0]->hash, all[2]->hash);
  std::vector<float> change(base.size());
  const Json spec = Json::parse(R"({"type": "fp32", "feedback": true})", "test");
  const auto codec = make_codec(&spec, "test");
  const CodecSegment segment{.count = static_cast<int64_t>(change.size())};
  ASSERT_TRUE(codec->decode_add(*late.payload, -1, segment, change, {}));
  for (size_t i = 0; i < change.size(); ++i) change[i] += global[i];
  EXPECT_LE(relative_difference(change, parameters_of(*all[0])), 1e-6);
}

TEST(Coded, WorksOnFloat32Alone) {
  TestReplica replica(welcome_with(R"("int8")", R"(, "precision": "float64", "device": "ref")"));
  EXPECT_TRUE(replica.failed && replica.for_all);
  EXPECT_NE(replica.failure.find("averaging: codec"), std::string::npos) << replica.failure;
}

}  // namespace
}  // namespace perigee
