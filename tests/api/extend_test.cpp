// A program's own additions, without touching Perigee's files: ops, layers, data, policies.
#include "tests/api/extend.h"

namespace {

const bool registered = [] {
  register_swish();
  register_gate();
  register_quadrants();
  pg::register_source("broken", []() -> pg::source { throw std::runtime_error("the sensor is unplugged"); });
  return true;
}();

std::vector<float> trained_with(const pg::layer& own, int threads) {
  static const Quadrants data(400);
  pg::experiment described = small_experiment(data.source());
  described.network = pg::sequential(pg::dense(16, {.name = "hidden"}), own, pg::dense(2, {.name = "out"}));
  described.threads = threads;
  pg::trainer trainer(described);
  trainer.run(60);
  return all_parameters(trainer.model());
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-4) << i;
}

// The op's own code against the library's ops: the same function, so the same training but for rounding.
TEST(Extend, OpsOfTheProgramTrainLikeThoseOfTheLibrary) {
  const pg::layer theirs = pg::lambda([](pg::traced x) { return x * pg::ops::sigmoid(1.5 * x); });
  const pg::layer own = pg::lambda([](pg::traced x) { return pg::host_op("test.swish", {x}, {{"beta", 1.5}}); });
  const std::vector<float> expected = trained_with(theirs, 1);
  expect_near(trained_with(own, 1), expected);
  expect_near(trained_with(own, 2), expected);
}

TEST(Extend, LayersOfTheProgramHaveParameters) {
  const auto gain = [](pg::parameters& own) { return own.gain("gate", {16}, pg::options{{"type", "constant"}, {"value", 0.5}}); };
  const pg::layer theirs = pg::lambda([&](pg::parameters& own, pg::traced x) { return x * gain(own); });
  const pg::layer with_op = pg::lambda([&](pg::parameters& own, pg::traced x) { return pg::host_op("test.gate", {x, gain(own)}); });
  const std::vector<float> expected = trained_with(theirs, 1);
  expect_near(trained_with(with_op, 1), expected);
  expect_near(trained_with(with_op, 2), expected);

  const Quadrants data(100);
  pg::experiment described = small_experiment(data.source());
  described.network = pg::sequential(pg::dense(16), with_op, pg::dense(2));
  const pg::trainer trainer(described);
  EXPECT_EQ(trainer.model().read("lambda1.gate"), std::vector<float>(16, 0.5f));
  const std::vector<float> asked = {0.3f, 0.4f};
  EXPECT_EQ(pg::model::load(trainer.save()).predict(asked), trainer.predict(asked)) << "the model file names the op";
}

TEST(Extend, FunctionsOfTwoValues) {
  const Quadrants data(100);
  pg::experiment described = small_experiment(data.source());
  const pg::node x = pg::input("x");
  const pg::layer product = pg::lambda([](pg::traced a, pg::traced b) { return a * b; });
  described.network = pg::graph({x}, {pg::dense(2)(product(pg::dense(4)(x), pg::dense(4)(x)))});
  pg::trainer trainer(described);
  trainer.run(5);
}

TEST(Extend, MistakesAreExplained) {
  const auto text = [](const pg::layer& own) { return failure([&] { trained_with(own, 1); }, PERIGEE_MODEL); };
  const auto host = [](const char* name, const pg::options& more) {
    return pg::lambda([=](pg::traced x) { return pg::host_op(name, {x}, more); });
  };
  EXPECT_NE(text(host("test.swosh", {})).find("did you mean 'test.swish'"), std::string::npos);
  EXPECT_NE(text(host("test.swish", {{"betta", 1}})).find("did you mean 'beta'"), std::string::npos);
  EXPECT_NE(text(host("test.gate", {})).find("number of operands"), std::string::npos);
  const pg::layer narrow = pg::lambda([](pg::parameters& own, pg::traced x) { return pg::host_op("test.gate", {x, own.gain("g", {3})}); });
  EXPECT_NE(text(narrow).find("as wide as what it gates"), std::string::npos);
  EXPECT_NE(failure(register_swish, PERIGEE_USAGE).find("registered already"), std::string::npos);
  EXPECT_NE(failure([] { pg::register_op({.name = "swish", .forward = [](auto, auto, auto&) {}}); }, PERIGEE_USAGE).find("dot"),
            std::string::npos);
  failure([] { pg::register_op({.name = "test.nothing"}); }, PERIGEE_USAGE);
  failure([] { pg::register_op({.name = "test.many", .operands = 9, .forward = [](auto, auto, auto&) {}}); }, PERIGEE_USAGE);
}

TEST(Extend, RegisteredDataAreFoundByName) {
  pg::trainer trainer(small_experiment(pg::registered("quadrants")));
  trainer.run();
  EXPECT_GT(trainer.evaluate("train").accuracy, 0.97);
  EXPECT_NE(failure([] { pg::trainer(small_experiment(pg::registered("quadrant"))); }, PERIGEE_DATA).find("did you mean 'quadrants'"),
            std::string::npos);
  EXPECT_NE(failure([] { pg::trainer(small_experiment(pg::registered("broken"))); }, PERIGEE_DATA).find("the sensor is unplugged"),
            std::string::npos);
  failure([] { pg::register_source("quadrants", [] { return pg::source(); }); }, PERIGEE_USAGE);
}

TEST(Extend, PoliciesAreTracedAsInLua) {
  const char* const lua = R"(
local pg = require "perigee"
return pg.experiment {
  network = pg.sequential { pg.dense { 8 } }, loss = "mse", data = { train = pg.data.digits { part = "train" } },
  averaging = pg.averaging.custom { every = 5, momentum = 0.5, state = { velocity = 0 }, outer = function(p)
    p.velocity = p.momentum * p.velocity + p.delta
    return p.global - p.velocity
  end } })";
  const pg::job job = pg::experiment{.network = pg::sequential(pg::dense(8)),
                                     .loss = "mse",
                                     .data = {.train = pg::sources::digits({{"part", "train"}})},
                                     .averaging = momentum_policy()};
  EXPECT_EQ(job.json(), pg::job::parse(lua, PERIGEE_LUA).json());
}

}  // namespace
