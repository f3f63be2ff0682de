// Recomputation in the backward pass changes nothing but memory and time: every run has the bits of one that keeps everything.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "src/graph/passes/recompute.h"
#include "src/model/plans/recompute.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

Job deep_job(const std::string& more) {
  std::string layers;
  for (int i = 0; i < 16; ++i) layers += R"({"type": "dense", "out": 40, "activation": "tanh"}, )";
  return job_of("[" + layers + R"({"type": "dense", "out": 10}])", more);
}

// Shortcuts, running statistics, draws in front of and inside of what is computed again.
Job residual_job(const std::string& more) {
  std::string nodes, before = "x";
  const auto add = [&](const std::string& name, const std::string& layer, const std::string& inputs) {
    nodes += (nodes.empty() ? "" : ", ") + (R"({"name": ")" + name + R"(", "layer": )" + layer + R"(, "inputs": [)" + inputs + "]}");
    before = name;
  };
  const auto quoted = [](const std::string& name) { return '"' + name + '"'; };
  add("stem", R"({"type": "conv2d", "out": 6, "kernel": 3, "stride": 2, "padding": 1})", quoted("x"));
  add("noise", R"({"type": "gaussian_noise", "stddev": 0.1})", quoted("stem"));
  for (int i = 0; i < 5; ++i) {
    const std::string n = std::to_string(i), shortcut = before;
    add("conv" + n, R"({"type": "conv2d", "out": 6, "kernel": 3, "padding": 1})", quoted(before));
    add("norm" + n, R"({"type": "batchnorm"})", quoted(before));
    add("relu" + n, R"({"type": "activation", "activation": "relu"})", quoted(before));
    add("drop" + n, R"({"type": "dropout", "rate": 0.2})", quoted(before));
    add("sum" + n, R"({"type": "add"})", quoted(before) + ", " + quoted(shortcut));
  }
  add("head", R"({"type": "dense", "out": 10})", quoted(before));
  return Job(
      Json::parse(R"({"loss": "cross_entropy", "optimizer": "adam", "seed": 11, "epochs": 3, "network": {"type": "graph", "inputs": ["x"],
      "nodes": [)" + nodes +
                      R"(], "outputs": ["head"]}, "data": {"train": {"type": "digits", "size": 64, "endless": false}, "batch": 16})" +
                      more + "}",
                  "job"),
      "job");
}

struct Network {
  const char* name;
  Job (*make)(const std::string&);
};
const Network kNetworks[] = {{"deep", &deep_job}, {"residual", &residual_job}, {"noisy", &noisy_job}, {"lenet", &lenet_job}};

Bits trained_recomputing(Job (*make)(const std::string&), const std::string& more, TrainerOptions options) {
  options.measure = false;
  Trainer trainer(make(more), options);
  for (int i = 0; i < 6; ++i) trainer.step();
  return bits_of(trainer);
}

class Recompute : public testing::TestWithParam<Network> {};

TEST_P(Recompute, HasTheBitsOfARunThatKeepsEverything) {
  for (const TrainerOptions& options :
       {TrainerOptions{.threads = 1, .backend = Backend::ref}, TrainerOptions{.threads = 1}, TrainerOptions{.threads = 2}}) {
    const Bits kept = trained_recomputing(GetParam().make, "", options);
    for (const char* choice : {R"("all")", R"(["*"])", R"(["*1", "*2"])"})
      EXPECT_EQ(trained_recomputing(GetParam().make, std::string(R"(, "recompute": )") + choice, options), kept)
          << choice << ", threads " << options.threads;
  }
}

TEST_P(Recompute, HasTheBitsInFloat64AndBfloat16) {
  for (const char* precision : {"float64", "bf16", "fp16"}) {
    const std::string more = std::string(R"(, "precision": ")") + precision + "\"";
    const TrainerOptions options{.threads = 1, .backend = Backend::ref};
    EXPECT_EQ(trained_recomputing(GetParam().make, more + R"(, "recompute": "all")", options),
              trained_recomputing(GetParam().make, more, options))
        << precision;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Recompute, testing::ValuesIn(kNetworks), [](const auto& info) { return std::string(info.param.name); });

struct Graphs {
  explicit Graphs(const Job& job, int64_t batch = 16)
      : trainer(job, {.threads = 1, .backend = Backend::ref, .sub_batch = 1, .measure = false}),
        graph(trainer.model().training_graph(batch)),
        options{.backend = Backend::cpu, .external_outputs = gradient_outputs(graph)} {}
  size_t arena(const Graph& of) const { return Plan::compile(of, options)->arena_bytes(); }
  Trainer trainer;
  Graph graph;
  PlanOptions options;
};

TEST(Recompute, SegmentsTakeLessThanHalfOfADeepNetworksMemory) {
  const Graphs deep(deep_job(""), 256);
  const RecomputeAnalysis analysis(deep.graph);
  const size_t kept = deep.arena(deep.graph);
  EXPECT_LT(deep.arena(analysis.rewrite(analysis.segments(4, 1, 0))), kept * 6 / 10);
  // At most one forward pass more: a third of all operations, the backward pass being two.
  for (const int segments : {2, 4, 8}) {
    const double added = flops_of(analysis.rewrite(analysis.segments(segments, 1, 0))) / flops_of(deep.graph) - 1;
    EXPECT_GT(added, 0.05) << segments;
    EXPECT_LT(added, 0.34) << segments;
  }
}

TEST(Recompute, CheapResultsCostHardlyAnyOperations) {
  std::string layers;
  for (int i = 0; i < 6; ++i)
    layers +=
        R"({"type": "conv2d", "out": 8, "kernel": 3, "padding": 1}, {"type": "batchnorm"}, {"type": "activation", "activation": "relu"}, )";
  const Graphs plain(job_of("[" + layers + R"({"type": "dense", "out": 10}])"), 64);
  const RecomputeAnalysis analysis(plain.graph);
  const Graph again = analysis.rewrite(analysis.cheap(1, 2));
  EXPECT_LT(plain.arena(again), plain.arena(plain.graph) * 7 / 10);
  EXPECT_LT(flops_of(again) / flops_of(plain.graph), 1.02);
  // Nothing that is dear runs twice.
  const auto convolutions = [](const Graph& graph) {
    return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                         [](const Node& node) { return std::string_view(node.op->name) == "conv2d"; });
  };
  EXPECT_EQ(convolutions(again), convolutions(plain.graph));
}

TEST(Recompute, StatesAreAssignedOnceByTheForwardPass) {
  const Graphs residual(residual_job(""));
  const RecomputeAnalysis analysis(residual.graph);
  const Graph again = analysis.rewrite(analysis.everything());
  ASSERT_GT(again.nodes().size(), residual.graph.nodes().size());
  ASSERT_EQ(again.assignments().size(), residual.graph.assignments().size());
  std::set<std::string> states;
  for (const Assignment& assignment : again.assignments()) EXPECT_TRUE(states.insert(assignment.state).second);
  EXPECT_EQ(states.size(), 10u);  // mean and variance of five layers
}

TEST(Recompute, AutomaticTakesTheFewestOperationsThatFit) {
  const Graphs residual(residual_job(""), 64);
  using Mode = RecomputeOptions::Mode;
  const auto chosen = [&](Mode mode, size_t room) { return choose_recompute(residual.graph, residual.options, mode, room); };
  const RecomputeChoice none = chosen(Mode::none, 0), all = chosen(Mode::all, SIZE_MAX);
  const size_t most = none.plan->arena_bytes(), least = all.plan->arena_bytes();
  ASSERT_LT(least, most * 7 / 10);
  EXPECT_EQ(chosen(Mode::automatic, most).how, "none");
  double before = 0;
  for (const size_t room : {most - 1, most * 9 / 10, (most + least) / 2, least}) {
    const RecomputeChoice choice = chosen(Mode::automatic, room);
    EXPECT_LE(choice.plan->arena_bytes(), room) << choice.how;
    EXPECT_GE(choice.added_flops, before) << choice.how;
    before = choice.added_flops;
  }
  EXPECT_EQ(chosen(Mode::automatic, 1).plan->arena_bytes(), least);  // nothing fits: as little as can be
}

TEST(Recompute, TheLimitOfTheHostIsKept) {
  Job job = deep_job("");
  job.set("data.batch", "512");
  job.set("data.train.size", "512");
  const TrainerOptions options{.threads = 1, .sub_batch = 512, .measure = false};
  Trainer whole(job, options);
  whole.step();
  const size_t taken = whole.memory_bytes();
  job.set("recompute", "\"auto\"");
  job.set("memory_limit", std::to_string(taken - 400000));
  Trainer limited(job, options);
  limited.step();
  EXPECT_LE(limited.memory_bytes(), taken - 400000);
  EXPECT_EQ(bits_of(limited), bits_of(whole));
  job.set("recompute", "\"none\"");
  EXPECT_THROW(Trainer(job, options).step(), Error);
}

std::string recompute_error(const std::string& more) {
  try {
    Trainer(lenet_job(more), {.threads = 1, .measure = false});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Recompute, SaysWhatIsWrong) {
  const auto expect = [](const std::string& more, const std::string& part) {
    EXPECT_NE(recompute_error(more).find(part), std::string::npos) << recompute_error(more);
  };
  expect(R"(, "recompute": "some")", "'some'");
  expect(R"(, "recompute": ["conf*"])", "no layer matches 'conf*'");
  expect(R"(, "memory_limit": "2 apples")", "'2 apples'");
  expect(R"(, "memory_limit": -1)", "memory_limit");
  expect(R"(, "memory_limit": "-2GB")", "'-2GB'");
  EXPECT_EQ(memory_limit_of(lenet_job(R"(, "memory_limit": "1.5 GiB")")), size_t{3} << 29);
  EXPECT_EQ(memory_limit_of(lenet_job(R"(, "memory_limit": 4096)")), 4096u);
}

}  // namespace
}  // namespace perigee
