// Four ways to write a job, one job.
#include <fstream>

#include "tests/api/support.h"

namespace {

const char* const kLua = R"(
local pg = require "perigee"
return pg.experiment {
  name = "lenet",
  network = pg.sequential {
    pg.conv2d { 4, kernel = 5, activation = "relu" },
    pg.maxpool { 2 },
    pg.conv2d { 6, kernel = 5, stride = 2, activation = "relu" },
    pg.maxpool { 2 },
    pg.dense { 20, activation = { type = "leaky_relu", alpha = 0.1 } },
    pg.dense { 10 },
  },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = pg.cosine { from = 2e-3 }, weight_decay = 5e-4 },
  data = { train = pg.data.digits { part = "train", size = 200 }, test = pg.data.digits { part = "test", size = 100 }, batch = 32 },
  epochs = 5, seed = 123,
  averaging = pg.averaging.periodic { every = 5 },
})";

const char* const kJson = R"({
  "name": "lenet", "seed": 123, "epochs": 5,
  "network": {"layers": [
    {"type": "conv2d", "out": 4, "activation": "relu", "kernel": 5},
    {"type": "maxpool", "kernel": 2},
    {"type": "conv2d", "out": 6, "kernel": 5, "stride": 2, "activation": "relu"},
    {"type": "maxpool", "kernel": 2},
    {"type": "dense", "out": 20, "activation": {"alpha": 1e-1, "type": "leaky_relu"}},
    {"type": "dense", "out": 10}], "type": "sequential"},
  "loss": "cross_entropy",
  "optimizer": {"type": "adamw", "lr": {"type": "cosine", "from": 0.002}, "weight_decay": 0.0005},
  "data": {"batch": 32, "train": {"type": "digits", "part": "train", "size": 200}, "test": {"type": "digits", "part": "test", "size": 100}},
  "averaging": {"type": "periodic", "every": 5}, "perigee": 1})";

const char* const kYaml = R"(# the same
perigee: 1
name: lenet
network:
  type: sequential
  layers:
    - {type: conv2d, out: 4, kernel: 5, activation: relu}
    - {type: maxpool, kernel: 2}
    - {type: conv2d, out: 6, kernel: 5, stride: 2, activation: relu}
    - {type: maxpool, kernel: 2}
    - type: dense
      out: 20
      activation: {type: leaky_relu, alpha: 0.1}
    - {type: dense, out: 10}
loss: cross_entropy
optimizer: {type: adamw, lr: {type: cosine, from: 2.0e-3}, weight_decay: 5.0e-4}
data:
  train: {type: digits, part: train, size: 200}
  test: {type: digits, part: test, size: 100}
  batch: 32
epochs: 5
seed: 123
averaging: {type: periodic, every: 5}
)";

pg::job in_cpp() {
  return pg::experiment{.name = "lenet",
                        .network = pg::sequential(pg::conv2d(4, {.kernel = 5, .activation = pg::relu}), pg::maxpool(2),
                                                  pg::conv2d(6, {.kernel = 5, .stride = 2, .activation = pg::relu}), pg::maxpool(2),
                                                  pg::dense(20, {.activation = pg::leaky_relu({{"alpha", 0.1}})}), pg::dense(10)),
                        .loss = pg::losses::cross_entropy,
                        .optimizer = pg::adamw({.lr = pg::cosine({.from = 2e-3}), .weight_decay = 5e-4}),
                        .data = {.train = pg::sources::digits({{"part", "train"}, {"size", 200}}),
                                 .test = pg::sources::digits({{"part", "test"}, {"size", 100}}),
                                 .batch = 32},
                        .epochs = 5,
                        .seed = 123,
                        .averaging = pg::averaging::periodic({{"every", 5}})};
}

std::vector<pg::job> four_ways() {
  std::vector<pg::job> jobs;
  jobs.push_back(in_cpp());
  jobs.push_back(pg::job::parse(kLua, PERIGEE_LUA, "lenet.lua"));
  jobs.push_back(pg::job::parse(kJson, PERIGEE_JSON, "lenet.json"));
  jobs.push_back(pg::job::parse(kYaml, PERIGEE_YAML, "lenet.yaml"));
  return jobs;
}

TEST(FrontEnds, WriteTheSameJob) {
  const std::vector<pg::job> jobs = four_ways();
  for (const pg::job& job : jobs) EXPECT_EQ(job.json(), jobs[0].json());
  EXPECT_NE(jobs[0].json().find("\"leaky_relu\""), std::string::npos);
  // And the canonical text is a job again.
  EXPECT_EQ(pg::job::parse(jobs[0].json()).json(), jobs[0].json());
}

TEST(FrontEnds, TrainToTheSameBits) {
  std::vector<float> first;
  for (const pg::job& job : four_ways()) {
    pg::trainer trainer(job, {.threads = 1});
    trainer.run(6);
    const std::vector<float> numbers = all_parameters(trainer.model());
    ASSERT_GT(numbers.size(), 1000u);
    if (first.empty()) first = numbers;
    EXPECT_EQ(numbers, first);
  }
}

TEST(FrontEnds, JobsLoadFromFiles) {
  const std::string folder = ::testing::TempDir();
  const std::pair<const char*, const char*> files[] = {{"job.lua", kLua}, {"job.json", kJson}, {"job.yaml", kYaml}};
  for (const auto& [name, text] : files) {
    std::ofstream(folder + name) << text;
    EXPECT_EQ(pg::job::load(folder + name).json(), in_cpp().json()) << name;
  }
  EXPECT_NE(failure([&] { pg::job::load(folder + "absent.json"); }, PERIGEE_USAGE).find("absent.json"), std::string::npos);
}

TEST(FrontEnds, GraphsAreTheSame) {
  const char* const lua = R"(
local pg = require "perigee"
local left, right = pg.input "left", pg.input "right"
local tower = pg.sequential { pg.dense { 8, activation = "relu" }, pg.dense { 4 } }
local joined = pg.dense { 1, name = "head" } (tower(left))
return pg.experiment { network = pg.graph { inputs = { left, right }, outputs = { joined, tower(right) } }, loss = "mse",
  data = { train = pg.data.digits { part = "train" } } })";
  const pg::node left = pg::input("left"), right = pg::input("right");
  const pg::network tower = pg::sequential(pg::dense(8, {.activation = pg::relu}), pg::dense(4));
  const pg::node joined = pg::dense(1, {.name = "head"})(tower(left));
  const pg::job job = pg::experiment{.network = pg::graph({left, right}, {joined, tower(right)}),
                                     .loss = "mse",
                                     .data = {.train = pg::sources::digits({{"part", "train"}})}};
  EXPECT_EQ(job.json(), pg::job::parse(lua, PERIGEE_LUA).json());
}

TEST(FrontEnds, AveragingPoliciesAreTheSame) {
  const char* const lua = R"(
local pg = require "perigee"
return pg.experiment {
  network = pg.sequential { pg.dense { 8 } }, loss = "mse", data = { train = pg.data.digits { part = "train" } },
  averaging = pg.averaging.diloco { every = 50, momentum = 0.5 } })";
  const pg::job job = pg::experiment{.network = pg::sequential(pg::dense(8)),
                                     .loss = "mse",
                                     .data = {.train = pg::sources::digits({{"part", "train"}})},
                                     .averaging = pg::averaging::diloco({{"every", 50}, {"momentum", 0.5}})};
  EXPECT_EQ(job.json(), pg::job::parse(lua, PERIGEE_LUA).json());
}

TEST(FrontEnds, LayersInsideLayersAreTheSame) {
  const char* const lua = R"(
local pg = require "perigee"
return pg.experiment {
  network = pg.sequential { pg.residual { pg.dense { 8, activation = "tanh" }, pg.dense { 8 }, shortcut = { pg.dense { 8 } } } },
  loss = "mse", data = { train = pg.data.digits { part = "train" } } })";
  const pg::job job = pg::experiment{
      .network = pg::sequential(
          pg::residual({.layers = {pg::dense(8, {.activation = pg::activations::tanh}), pg::dense(8)}, .shortcut = {pg::dense(8)}})),
      .loss = pg::losses::mse,
      .data = {.train = pg::sources::digits({{"part", "train"}})}};
  EXPECT_EQ(job.json(), pg::job::parse(lua, PERIGEE_LUA).json());
}

TEST(Dsl, OptionsLeftOutAreNotWritten) {
  EXPECT_EQ(pg::value(pg::dense(3).description()).text(), R"({"type":"dense","out":3})");
  EXPECT_EQ(pg::value(pg::conv2d(3, {.kernel = {5, 3}, .bias = false}).description()).text(),
            R"({"type":"conv2d","out":3,"kernel":[5,3],"bias":false})");
  EXPECT_EQ(pg::value(pg::conv2d(3, 5).description()).text(), R"({"type":"conv2d","out":3,"kernel":5})");
  EXPECT_EQ(pg::value(pg::dense({.out = 3, .more = {{"dropout", 0.5}}}).description()).text(), R"({"type":"dense","out":3,"dropout":0.5})");
}

TEST(Dsl, TextIsEscapedAndNumbersAreExact) {
  EXPECT_EQ(pg::value("a\"b\\c\n\x01").text(), R"("a\"b\\c\u000a\u0001")");
  EXPECT_EQ(std::stod(pg::value(0.1 + 0.2).text()), 0.1 + 0.2);
  EXPECT_EQ(pg::value(1e300).text(), "1e+300");
  EXPECT_EQ(pg::value(std::vector<pg::value>{}).text(), "[]");
  failure([] { pg::value(0.0 / 0.0); }, PERIGEE_USAGE);
}

TEST(Dsl, ErrorsSayWhereAndHowToMend) {
  pg::experiment job = small_experiment(pg::sources::digits({{"part", "train"}}));
  job.network = pg::sequential(pg::dense(3, {.more = {{"activaton", "relu"}}}));
  const std::string text = failure([&] { pg::trainer trainer((pg::job(job))); }, PERIGEE_MODEL);
  EXPECT_NE(text.find("activaton"), std::string::npos) << text;
  EXPECT_NE(text.find("did you mean 'activation'"), std::string::npos) << text;
}

TEST(Job, SetChangesWhatIsTrained) {
  pg::job job = in_cpp();
  job.set("optimizer.weight_decay", 0.25);
  job.set("network.layers.1.out", 9);
  EXPECT_NE(job.json().find("\"weight_decay\":0.25"), std::string::npos) << job.json();
  EXPECT_NE(job.json().find("\"out\":9"), std::string::npos) << job.json();
  const std::string text = failure([&] { job.set("optimzer.lr", 1); }, PERIGEE_USAGE);
  EXPECT_NE(text.find("optimizer"), std::string::npos) << text;
}

TEST(Job, BytecodeIsRefused) {
  failure([] { pg::job::parse("\x1bLJ\x02", PERIGEE_LUA); }, PERIGEE_MODEL);
  failure([] { pg::job::parse("return 3", PERIGEE_LUA); }, PERIGEE_MODEL);
  failure([] { pg::job::parse("{", PERIGEE_JSON); }, PERIGEE_MODEL);
}

}  // namespace
