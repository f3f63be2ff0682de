// Rounds of fragments, and results that meet local work: against loops in double, and against the policies that they must be equal to.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "cluster/exchange/fragment_payload.h"
#include "cluster/rounds/local/fragments.h"
#include "src/run/checkpoint.h"
#include "tests/cluster/replica/policy_text.h"
#include "tests/cluster/replica/replica_harness.h"

namespace perigee {
namespace {

// ---- the plan ----

// Four layers with a weight and a bias each; a gap after every bias.
std::vector<ParamWindow> windows_of(const std::vector<int64_t>& weights) {
  std::vector<ParamWindow> windows;
  int64_t at = 0;
  for (size_t i = 0; i < weights.size(); ++i)
    for (const char* part : {"weight", "bias"}) {
      ParamWindow window;
      window.name = "fc" + std::to_string(i + 1) + "." + part;
      window.offset = at;
      window.elements = part[0] == 'w' ? weights[i] : 10;
      at = (at + window.elements + 15) / 16 * 16;
      windows.push_back(window);
    }
  return windows;
}
const std::vector<ParamWindow> kWindows = windows_of({100, 300, 64, 500});
const int64_t kElements = kWindows.back().offset + 16;

FragmentPlan plan_of(const std::string& averaging) { return {policy_of(averaging), kWindows, kElements, "averaging"}; }
std::string failure(const std::string& averaging) {
  try {
    plan_of(averaging);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Every element of the block is in one fragment, at one place of the row.
void expect_partition(const FragmentPlan& plan) {
  std::vector<int> block(static_cast<size_t>(kElements)), row(static_cast<size_t>(kElements));
  int64_t next = 0, parameters = 0;
  for (const Fragment& f : plan.fragments()) {
    EXPECT_EQ(f.row, next);
    next += f.elements;
    parameters += f.parameters;
    for (const FragmentRun& run : f.runs)
      for (int64_t i = 0; i < run.elements; ++i) ++block[static_cast<size_t>(run.block + i)], ++row[static_cast<size_t>(run.row + i)];
  }
  EXPECT_EQ(next, kElements);
  EXPECT_EQ(parameters, 100 + 300 + 64 + 500 + 40);
  EXPECT_TRUE(std::all_of(block.begin(), block.end(), [](int n) { return n == 1; }));
  EXPECT_TRUE(std::all_of(row.begin(), row.end(), [](int n) { return n == 1; }));
}

std::vector<int64_t> sizes_of(const FragmentPlan& plan) {
  std::vector<int64_t> sizes;
  for (const Fragment& f : plan.fragments()) sizes.push_back(f.parameters);
  return sizes;
}

TEST(FragmentPlan, CutsTheBlockWithoutGapsOrOverlaps) {
  for (const char* cut : {"even", "layers", "strided"})
    for (const int count : {2, 3, 4}) {
      SCOPED_TRACE(std::string(cut) + " " + std::to_string(count));
      const FragmentPlan plan = plan_of(R"({"type": "streaming", "fragments": )" + std::to_string(count) + R"(, "cut": ")" + cut + "\"}");
      EXPECT_EQ(plan.fragments().size(), static_cast<size_t>(count));
      expect_partition(plan);
    }
  EXPECT_EQ(sizes_of(plan_of(R"({"type": "streaming", "fragments": 2, "cut": "layers"})")), (std::vector<int64_t>{494, 510}));
  EXPECT_EQ(sizes_of(plan_of(R"({"type": "streaming", "fragments": 2, "cut": "strided"})")), (std::vector<int64_t>{184, 820}));
  const FragmentPlan even = plan_of(R"({"type": "streaming", "fragments": 4})");
  for (const Fragment& f : even.fragments()) EXPECT_LE(std::abs(f.elements - kElements / 4), 16);
  EXPECT_TRUE(plan_of(R"("diloco")").empty());
}

TEST(FragmentPlan, EachHasItsTurnOnceInEvery) {
  const Policy policy = policy_of(R"({"type": "streaming", "every": 50, "fragments": 4})");
  int64_t steps = 0;
  for (int64_t round = 0; round < 8; ++round) {
    steps += policy.steps_of(round);
    if (round % 4 == 3) {
      EXPECT_EQ(steps, 50 * (round / 4 + 1));
    }
    EXPECT_LE(policy.steps_of(round), policy.steps_per_round());
    int due = 0;
    for (const FragmentPart& part : plan_of(R"({"type": "streaming", "every": 50, "fragments": 4})").parts(4)) due += part.due(round);
    EXPECT_EQ(due, 1);
  }
}

TEST(FragmentPlan, PatternsChooseTheirLayers) {
  const FragmentPlan plan =
      plan_of(R"({"fc4.*": {"type": "periodic", "every": 50, "codec": "int4"}, "*.bias": {"type": "periodic", "every": 5},
                                        "fc2.*": {"type": "diloco", "every": 20}, "*": "periodic"})");
  expect_partition(plan);
  // "*" and "*.bias" have equal terms: one fragment. Of "fc4.bias" the patterns fc4.* (4 letters) and *.bias (5) both speak.
  ASSERT_EQ(plan.fragments().size(), 3u);
  EXPECT_EQ(sizes_of(plan), (std::vector<int64_t>{164 + 40, 300, 500}));
  EXPECT_EQ(plan.fragments()[0].name, "*, *.bias");
  EXPECT_EQ(plan.fragments()[0].interval, 1);
  EXPECT_EQ(plan.fragments()[1].interval, 4);
  EXPECT_EQ(plan.fragments()[2].interval, 10);
  EXPECT_EQ(plan.fragments()[2].phase, 9);
  EXPECT_FALSE(plan.fragments()[2].codec.is_null());
  const Policy policy = policy_of(R"({"fc4.*": {"type": "periodic", "every": 50}, "*": "periodic"})");
  EXPECT_EQ(policy.every, 5);
  const Json again = policy.to_json();
  EXPECT_EQ(read_policy(&again, "").to_json(), again);
}

TEST(FragmentPlan, SaysWhatDoesNotFit) {
  const auto expect_says = [](const std::string& averaging, const std::string& part) {
    EXPECT_NE(failure(averaging).find(part), std::string::npos) << averaging << ": " << failure(averaging);
  };
  expect_says(R"({"fc*": "periodic"})", "[\"*\"]");
  expect_says(R"({"fd2.*": {"type": "periodic", "every": 10}, "*": "periodic"})", "fc2.*");
  expect_says(R"({"fc2.*": {"type": "periodic", "every": 12}, "*": "periodic"})", "multiple of 5");
  expect_says(R"({"fc2.*": "allreduce", "*": "periodic"})", "parameters");
  expect_says(R"({"fc2.*": {"type": "periodic", "every": 10, "topology": "star"}, "*": "periodic"})", "topology");
  expect_says(R"({"fc2.*": {"type": "periodic", "every": 10}, "*2.weight": {"type": "periodic", "every": 15}, "*.weight": "slowmo",
                  "fc2.w*": {"type": "periodic", "every": 20}, "*": {"type": "periodic", "every": 5}})",
              "");
  expect_says(R"({"fc2*": {"type": "periodic", "every": 10}, "*.we": "periodic", "*": "periodic"})", "matches no parameter");
  expect_says(R"({"fc2*": {"type": "periodic", "every": 10}, "*c2.*": {"type": "periodic", "every": 15}, "fc2.*t": "periodic",
                  "*": "periodic"})",
              "");
  expect_says(
      R"({"fc*": {"type": "periodic", "every": 10}, "*.w*": {"type": "periodic", "every": 15}, "*.b*": "periodic", "*": "periodic"})",
      "says as much");
  expect_says(R"({"fc2.*": {"type": "streaming", "every": 100}, "*": "periodic"})", "fragments");
  expect_says(R"({"type": "streaming", "fragments": 5, "cut": "layers"})", "at most 4");
  expect_says(R"({"type": "streaming", "fragments": 8, "every": 4})", "at most every = 4");
  expect_says(R"({"type": "periodic", "late": 2})", "overlap");
  expect_says(R"({"type": "streaming", "every": 8, "late": 2})", "less than every / fragments = 2");
  expect_says(R"({"type": "periodic", "overlap": true, "average_optimizer": true})", "average_optimizer");
}

// ---- payloads ----

TEST(FragmentPayload, ComesBackAsItWas) {
  const std::vector<std::byte> one(7, std::byte{1}), two(100, std::byte{2});
  const std::vector<FragmentChange> changes = {{0, 5, one}, {3, int64_t{1} << 30, two}, {4, 1, {}}};
  const std::vector<std::byte> bytes = encode_fragments(changes);
  EXPECT_EQ(bytes.size(), kFragmentPayloadHead + 3 * kFragmentChangeHead + 107);
  std::vector<FragmentChange> read;
  ASSERT_TRUE(decode_fragments(bytes, 5, &read));
  ASSERT_EQ(read.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read[i].fragment, changes[i].fragment);
    EXPECT_EQ(read[i].examples, changes[i].examples);
    EXPECT_TRUE(std::equal(read[i].bytes.begin(), read[i].bytes.end(), changes[i].bytes.begin(), changes[i].bytes.end()));
  }
  EXPECT_FALSE(decode_fragments(bytes, 4, &read)) << "a fragment that there is not";
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_fragments(std::span(bytes).first(length), 5, &read)) << length;
  std::vector<std::byte> longer = bytes;
  longer.push_back({});
  EXPECT_FALSE(decode_fragments(longer, 5, &read));
  EXPECT_FALSE(decode_fragments(encode_fragments(std::vector<FragmentChange>{{3, 1, one}, {3, 1, one}}), 5, &read)) << "twice";
  std::vector<std::byte> none = encode_fragments(std::vector<FragmentChange>{{0, 1, one}});
  std::fill_n(none.begin() + 12, 8, std::byte{0});
  EXPECT_FALSE(decode_fragments(none, 5, &read)) << "of no examples";
  EXPECT_TRUE(decode_fragments(encode_fragments({}), 5, &read));
}

// ---- replicas that really train ----

Welcome welcome_to_fragments(const std::string& averaging, size_t worker = 0, const std::string& more = "") {
  Welcome welcome;
  welcome.id = static_cast<WorkerId>(worker + 1);
  welcome.job = R"({"loss": "cross_entropy", "seed": 5, "epochs": 100, "network": {"type": "sequential", "layers": [
      {"type": "conv2d", "out": 3, "kernel": 5, "stride": 4}, {"type": "batchnorm"}, {"type": "activation", "activation": "tanh"},
      {"type": "dense", "out": 12}, {"type": "dense", "out": 10}]}, "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0.9}, "averaging": )" +
                averaging + R"(, "data": {"train": {"type": "digits", "endless": false, "size": 640}, "batch": 16})" + more + "}";
  welcome.folder = ".";
  welcome.threads = 1;
  return welcome;
}

Replicas make_workers(size_t count, const std::string& averaging, const std::string& more = "") {
  Replicas nodes;
  for (size_t i = 0; i < count; ++i) {
    nodes.push_back(std::make_unique<TestReplica>(welcome_to_fragments(averaging, i, more)));
    EXPECT_FALSE(nodes.back()->failed) << nodes.back()->failure;
  }
  return nodes;
}

// The parts of a row that an exchange sums: due fragments, or all, and the part of every round. The rest of each row stays.
ApplyOrder exchange_due(Replicas& nodes, int64_t round, size_t row, bool last = false) {
  const ExchangeLayout layout = nodes[0]->replica->layout();
  std::vector<std::byte> sum;
  ApplyOrder order{.round = round, .row = row, .examples_after = 96 * (round + 1), .last = last};
  for (auto& node : nodes) {
    const std::span<std::byte> own = node->replica->exchange_row(row);
    if (sum.empty()) sum.assign(own.begin(), own.end());
    else add_row(layout, sum.data(), own.data());
    order.examples += node->contribution.examples;
    if (node->contribution.payload) order.payloads.push_back({node->contribution.payload, node->contribution.examples});
  }
  for (auto& node : nodes) {
    std::byte* own = node->replica->exchange_row(row).data();
    const auto parts = node->replica->fragments();
    const size_t end = parts.empty() ? 0 : parts.back().end;
    for (const FragmentPart& part : parts)
      if (part.due(round) ? !part.coded : last)
        std::copy(sum.begin() + static_cast<ptrdiff_t>(part.begin), sum.begin() + static_cast<ptrdiff_t>(part.end), own + part.begin);
    std::copy(sum.begin() + static_cast<ptrdiff_t>(end), sum.end(), own + end);
  }
  return order;
}

// All train and average. The contributions' rows as they were staged.
std::vector<std::vector<std::byte>> play(Replicas& nodes, int64_t round, const std::vector<int64_t>& steps, bool last = false) {
  std::vector<std::vector<std::byte>> rows;
  for (size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_TRUE(nodes[i]->train(small_order(round, i, steps[i])).finite);
    EXPECT_FALSE(nodes[i]->failed) << nodes[i]->failure;
    const std::span<std::byte> row = nodes[i]->replica->exchange_row(0);
    rows.emplace_back(row.begin(), row.end());
  }
  const ApplyOrder order = exchange_due(nodes, round, 0, last);
  for (auto& node : nodes) node->apply(order);
  for (auto& node : nodes) EXPECT_EQ(node->hash, nodes[0]->hash) << "round " << round;
  return rows;
}

const char* const kDouble = R"(, "precision": "float64")";

// U2: in one piece, without overlap, the result replacing all local work, streaming is DiLoCo to the bit: parameters, outer state, hash.
TEST(Fragments, OneOfThemIsTheWholePolicy) {
  Replicas plain = make_workers(3, R"({"type": "diloco", "every": 2, "rate": 0.4})");
  Replicas one = make_workers(3, R"({"type": "streaming", "every": 2, "fragments": 1, "overlap": false, "keep": 0})");
  ASSERT_TRUE(plain[0]->replica->fragments().empty());
  ASSERT_EQ(one[0]->replica->fragments().size(), 1u);
  for (int64_t round = 0; round < 5; ++round) {
    play(plain, round, {2, 1, 2});
    play(one, round, {2, 1, 2});
    EXPECT_EQ(one[0]->hash, plain[0]->hash) << "round " << round;
  }
  Replicas alone = make_workers(1, R"({"type": "diloco", "every": 2})"),
           piece = make_workers(1, R"({"type": "diloco", "every": 2, "keep": 0})");
  for (Replicas* run : {&alone, &piece}) {
    (*run)[0]->train(small_order(0, 0, 2));
    (*run)[0]->apply(0, 32, 32, true);
  }
  EXPECT_EQ(alone[0]->hash, piece[0]->hash);
}

// Two policies whose terms differ in name only, at equal intervals: the policy that is not cut, to the bit.
TEST(Fragments, WithEqualTurnsTheyAreTheUncutPolicy) {
  Replicas whole = make_workers(3, R"({"type": "periodic", "every": 2})");
  Replicas cut =
      make_workers(3, R"({"dense1.*": {"type": "diloco", "every": 2, "rate": 1, "momentum": 0}, "*": {"type": "periodic", "every": 2}})");
  ASSERT_EQ(cut[0]->replica->fragments().size(), 2u);
  for (int64_t round = 0; round < 4; ++round) {
    play(whole, round, {2, 2, 1});
    play(cut, round, {2, 2, 1});
    EXPECT_EQ(parameters_of(*whole[0]), parameters_of(*cut[0])) << "round " << round;
  }
}

// The same of a coded one: one fragment gives the payload that the uncut policy gives, in a frame.
TEST(Fragments, OneOfThemSendsTheWholePolicysPayload) {
  Replicas plain = make_workers(2, R"({"type": "periodic", "every": 2, "codec": "int4"})");
  Replicas one = make_workers(2, R"({"type": "periodic", "every": 2, "codec": "int4", "keep": 0})");
  for (int64_t round = 0; round < 3; ++round) {
    for (Replicas* run : {&plain, &one})
      for (size_t i = 0; i < 2; ++i) (*run)[i]->train(small_order(round, i, 2));
    std::vector<FragmentChange> changes;
    ASSERT_TRUE(decode_fragments(*one[1]->contribution.payload, 1, &changes));
    ASSERT_EQ(changes.size(), 1u);
    const auto& expected = *plain[1]->contribution.payload;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), changes[0].bytes.begin(), changes[0].bytes.end()));
    EXPECT_EQ(changes[0].examples, 32);
    const auto gather = [&](Replicas& nodes, size_t from) {
      const ExchangeLayout layout = nodes[0]->replica->layout();
      ApplyOrder order{.round = round, .examples = 64, .examples_after = 96 * (round + 1)};
      std::vector<std::byte> sum(nodes[0]->replica->exchange_row(0).begin(), nodes[0]->replica->exchange_row(0).end());
      add_row(layout, sum.data(), nodes[1]->replica->exchange_row(0).data());
      for (auto& node : nodes) {
        std::copy(sum.begin() + static_cast<ptrdiff_t>(from), sum.end(), node->replica->exchange_row(0).data() + from);
        order.payloads.push_back({node->contribution.payload, 32});
      }
      for (auto& node : nodes) node->apply(order);
    };
    gather(plain, plain[0]->replica->layout().coded);
    gather(one, one[0]->replica->fragments()[0].end);
    EXPECT_EQ(plain[0]->hash, one[0]->hash) << "round " << round;
  }
}

// Streaming DiLoCo's outer step by hand, in double: every fragment has the mean of its contributions by the examples that each worker has
// trained since that fragment was last merged; torch.optim.SGD with nesterov on top; what is not due stays the old result, and the work on
// it goes on.
TEST(Fragments, TrajectoryIsThatOfTheReference) {
  Replicas nodes = make_workers(
      3, R"({"type": "streaming", "every": 6, "fragments": 3, "overlap": false, "keep": 0, "momentum": 0.8, "rate": 0.6})", kDouble);
  const auto parts = nodes[0]->replica->fragments();
  const std::vector<std::vector<int64_t>> steps = {{2, 2, 1}, {2, 1, 0}, {1, 2, 2}, {0, 2, 2}, {2, 2, 2}, {2, 0, 1}, {2, 2, 2}};
  std::vector<double> global = parameters_of<double>(*nodes[0]), buffer(global.size());
  std::vector<std::vector<double>> weight(3, std::vector<double>(3));
  for (int64_t round = 0; round < 7; ++round) {
    const bool last = round == 6;
    for (size_t k = 0; k < 3; ++k)
      for (double& w : weight[k]) w += 16 * static_cast<double>(steps[static_cast<size_t>(round)][k]);
    const auto rows = play(nodes, round, steps[static_cast<size_t>(round)], last);
    for (size_t f = 0; f < 3; ++f) {
      if (!last && round % 3 != static_cast<int64_t>(f)) continue;
      double all = 0;
      for (size_t k = 0; k < 3; ++k) all += weight[k][f];
      for (size_t i = parts[f].begin / 8; i < parts[f].end / 8; ++i) {  // an even cut: the row is the block
        double mean = 0;
        for (size_t k = 0; k < 3; ++k) mean += reinterpret_cast<const double*>(rows[k].data())[i] / all;
        const double gradient = global[i] - mean;
        buffer[i] = 0.8 * buffer[i] + gradient;
        global[i] -= 0.6 * (gradient + 0.8 * buffer[i]);
      }
      for (size_t k = 0; k < 3; ++k) weight[k][f] = 0;
    }
    EXPECT_LE(relative_difference(global, parameters_of<double>(*nodes[1])), 1e-14) << "round " << round;
  }
}

// A replica whose rounds are all its own shows what its local parameters are: the row divided by its weight.
std::vector<double> staged_values(TestReplica& node, size_t row, double examples) {
  const auto* values = reinterpret_cast<const double*>(node.replica->exchange_row(row).data());
  std::vector<double> all(values, values + node.replica->fragments().back().end / 8);
  for (double& value : all) value /= examples;
  return all;
}

// Result m of the mean of two workers' w, while node 0 has gone on from its w to v: all its work since stays, m + (v - w), or a share.
void expect_overlapped(const std::string& averaging, const std::function<double(double w, double v, double m)>& expected) {
  Replicas nodes = make_workers(2, averaging, kDouble), twin = make_workers(1, R"({"type": "periodic", "every": 4, "keep": 0})", kDouble);
  for (size_t i = 0; i < 2; ++i) nodes[i]->train(small_order(0, i, 2));
  twin[0]->train(small_order(0, 0, 2));
  const std::vector<double> w = staged_values(*nodes[0], 0, 32), other = staged_values(*nodes[1], 0, 32);
  EXPECT_EQ(w, staged_values(*twin[0], 0, 32));
  twin[0]->train(small_order(1, 0, 3));  // the same steps without a result: its work has grown to 80 examples
  const std::vector<double> v = staged_values(*twin[0], 0, 80);

  TrainOrder next = small_order(1, 0, 3);
  next.overlapped = true, next.row = 1;
  nodes[0]->start(next);
  for (int i = 0; i < 60'000 && nodes[0]->replica->steps() < 5; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_EQ(nodes[0]->replica->steps(), 5) << "its steps are made, and it waits";
  nodes[0]->replica->deliver();
  EXPECT_EQ(nodes[0]->contributions, 0) << "a contribution came before the result that it is to be based on";
  const ApplyOrder order = [&] {
    ApplyOrder made = exchange_due(nodes, 0, 0);
    made.examples = 64;
    return made;
  }();
  nodes[0]->apply(order), nodes[1]->apply(order);
  EXPECT_EQ(nodes[0]->hash, nodes[1]->hash);
  nodes[0]->finish();
  EXPECT_EQ(nodes[0]->contribution.examples, 48);
  const std::vector<double> local = staged_values(*nodes[0], 1, 48), result = parameters_of<double>(*nodes[1]);
  std::vector<double> mean(w.size()), expect(w.size());
  for (size_t i = 0; i < w.size(); ++i) {
    mean[i] = (w[i] + other[i]) / 2;
    expect[i] = expected(w[i], v[i], mean[i]);
  }
  EXPECT_LE(relative_difference(mean, result), 1e-14);
  EXPECT_LE(relative_difference(expect, local), 1e-14);
}
TEST(Overlap, AllWorkSinceTheContributionStays) {
  expect_overlapped(R"({"type": "periodic", "every": 4, "overlap": true, "late": 3})",
                    [](double w, double v, double m) { return m + (v - w); });
}
TEST(Overlap, OrAShareOfTheLocalParameters) {
  expect_overlapped(R"({"type": "periodic", "every": 4, "overlap": true, "late": 3, "keep": 0.25})",
                    [](double, double v, double m) { return 0.25 * v + 0.75 * m; });
  expect_overlapped(R"({"type": "periodic", "every": 4, "overlap": true, "late": 3, "keep": 0})",
                    [](double, double, double m) { return m; });
}

// The work of an abandoned round is in the next contribution, once.
TEST(Overlap, AVoidRoundIsPartOfTheNextContribution) {
  Replicas nodes = make_workers(1, R"({"type": "periodic", "every": 4, "overlap": true})", kDouble),
           twin = make_workers(1, R"({"type": "periodic", "every": 4, "keep": 0})", kDouble);
  twin[0]->train(small_order(0, 0, 2));
  twin[0]->train(small_order(1, 0, 2));
  nodes[0]->train(small_order(0, 0, 2));
  TrainOrder next = small_order(1, 0, 2);
  next.overlapped = true, next.row = 1;
  nodes[0]->start(next);
  nodes[0]->replica->unstage();
  EXPECT_EQ(nodes[0]->finish().examples, 32) << "of this order alone";
  EXPECT_EQ(nodes[0]->tail(1).examples, 64) << "of both";
  EXPECT_EQ(staged_values(*nodes[0], 1, 64), staged_values(*twin[0], 0, 64));
}

// A worker that trains ahead and is overtaken by an image stages the fragments of the round after what it holds, not of its order's.
TEST(Overlap, AContributionNamesTheRoundThatItIsStagedFor) {
  Replicas nodes = make_workers(1, R"({"type": "streaming", "every": 4, "fragments": 2, "codec": "int8"})");
  EXPECT_EQ(nodes[0]->train(small_order(0, 0, 2)).staged_for, 0);
  TrainOrder next = small_order(1, 0, 2);
  next.overlapped = true, next.row = 1;
  nodes[0]->start(next);
  nodes[0]->replica->unstage();
  const Contribution& late = nodes[0]->finish();
  EXPECT_EQ(late.round, 1) << "of its order";
  EXPECT_EQ(late.staged_for, 0);
  std::vector<FragmentChange> changes;
  ASSERT_TRUE(late.payload && decode_fragments(*late.payload, 2, &changes));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(nodes[0]->replica->fragments()[changes[0].fragment].due(late.staged_for));
}

// An order without ranges stages what there is.
TEST(Fragments, AWorkerWithoutWorkHandsInWhatItHas) {
  Replicas nodes = make_workers(2, R"({"type": "streaming", "every": 4, "fragments": 2, "overlap": false, "keep": 0})", kDouble);
  play(nodes, 0, {2, 2});
  nodes[0]->train({.round = 1});
  EXPECT_EQ(nodes[0]->contribution.examples, 0);
  EXPECT_TRUE(nodes[0]->contribution.ranges.empty());
  EXPECT_EQ(nodes[0]->tail().examples, 0);
  const ExchangeLayout layout = nodes[0]->replica->layout();
  const std::span<std::byte> row = nodes[0]->replica->exchange_row(0);
  EXPECT_EQ(read_exchange_tail(layout, row, 2).examples, 0) << "the first fragment was merged in round 0";
  EXPECT_EQ(read_exchange_tail(layout, row, 1).examples, 32);
}

// A late worker's work moves onto the result that it missed, and is in the rounds of its fragments from there on.
TEST(Fragments, ALateWorkerKeepsItsWork) {
  const char* const averaging = R"({"type": "streaming", "every": 4, "fragments": 2, "overlap": false, "keep": 0})";
  Replicas nodes = make_workers(2, averaging, kDouble), late = make_workers(1, averaging, kDouble);
  late[0]->train(small_order(0, 2, 2));
  const std::vector<double> start = parameters_of<double>(*nodes[0]), w = staged_values(*late[0], 0, 32);
  play(nodes, 0, {2, 2});
  EXPECT_EQ(late[0]->load(0, nodes[0]->snapshot(), true), nodes[0]->hash);
  late[0]->train({.round = 1});
  const std::vector<double> moved = staged_values(*late[0], 0, 32), result = parameters_of<double>(*nodes[0]);
  std::vector<double> expected(w.size());
  for (size_t i = 0; i < w.size(); ++i) expected[i] = w[i] + result[i] - start[i];
  EXPECT_LE(relative_difference(expected, moved), 1e-14);
}

// U7: what a round sends is what is due in it; the frame around it counts 4 bytes and 16 for each fragment.
TEST(Fragments, ARoundsPayloadIsOfThoseThatAreDue) {
  Replicas nodes = make_workers(2, R"({"type": "streaming", "every": 8, "fragments": 4, "overlap": false, "codec": "int4"})");
  const auto parts = nodes[0]->replica->fragments();
  const Json int4("int4");
  const std::unique_ptr<Codec> codec = make_codec(&int4, "test");
  for (int64_t round = 0; round < 6; ++round) {
    for (size_t i = 0; i < 2; ++i) nodes[i]->train(small_order(round, i, 2));
    const FragmentPart& due = parts[static_cast<size_t>(round % 4)];
    const CodecSegment segment{.count = static_cast<int64_t>((due.end - due.begin) / 4)};
    EXPECT_EQ(nodes[0]->contribution.payload->size(), kFragmentPayloadHead + kFragmentChangeHead + codec->bound(segment));
    const ApplyOrder order = exchange_due(nodes, round, 0, round == 5);
    for (auto& node : nodes) node->apply(order);
    EXPECT_EQ(nodes[0]->hash, nodes[1]->hash) << "round " << round;
  }
}

TEST(Fragments, APayloadThatIsNoneChangesNothing) {
  Replicas nodes = make_workers(2, R"({"type": "streaming", "every": 4, "fragments": 2, "overlap": false, "codec": "int4"})");
  for (size_t i = 0; i < 2; ++i) nodes[i]->train(small_order(0, i, 2));
  ApplyOrder order = exchange_due(nodes, 0, 0);
  const SharedBytes sound = order.payloads[1].bytes;
  const uint64_t before = nodes[0]->hash;
  for (const size_t length : {size_t{0}, size_t{3}, size_t{19}, sound->size() - 1}) {
    order.payloads[1].bytes =
        std::make_shared<const std::vector<std::byte>>(sound->begin(), sound->begin() + static_cast<ptrdiff_t>(length));
    nodes[0]->apply(order);
    EXPECT_EQ(nodes[0]->refused, 1) << length;
    EXPECT_EQ(nodes[0]->hash, before);
  }
  order.payloads[1].bytes = sound;
  for (auto& node : nodes) node->apply(order);
  EXPECT_EQ(nodes[0]->hash, nodes[1]->hash);
}

}  // namespace
}  // namespace perigee
