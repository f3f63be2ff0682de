// `perigee simulate` as a user meets it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/core/json.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string text;  // both streams
};

class SimulateCommand : public testing::Test {
 protected:
  SimulateCommand() {
    char name[] = "/tmp/perigee-simulate-XXXXXX";
    folder_ = mkdtemp(name);
    std::ofstream(folder_ / "job.lua") << R"(
local pg = require "perigee"
local digits = pg.data.digits { size = 4000 }
return pg.experiment {
  name = "small",
  network = pg.sequential { pg.dense { 10 } },
  loss = "cross_entropy",
  optimizer = pg.sgd { lr = 0.1 },
  data = { train = digits.train, batch = 10 },
  epochs = 2, seed = 7,
  averaging = pg.averaging.periodic { every = 5 },
}
)";
    std::ofstream(folder_ / "absent.json")
        << R"({"name": "absent", "network": {"type": "sequential", "layers": [{"type": "dense", "out": 10}]}, "loss": "cross_entropy",
               "optimizer": "sgd", "data": {"train": {"type": "csv", "file": "nowhere.csv", "target": -1}, "batch": 10}, "epochs": 1})";
  }
  ~SimulateCommand() override { fs::remove_all(folder_); }

  Outcome run(const std::string& arguments) {
    const std::string command = "cd " + folder_.string() + " && LC_ALL=C.UTF-8 " PERIGEE_PROGRAM " simulate " + arguments + " 2>&1";
    std::FILE* pipe = popen(command.c_str(), "r");
    Outcome outcome;
    char buffer[4096];
    for (size_t size; (size = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.text.append(buffer, size);
    const int status = pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
  }

  fs::path folder_;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(SimulateCommand, AGivenStepTimeOnAnIdealNetworkIsTheTime) {
  const Outcome outcome = run("job.lua --nodes 4 --bandwidth inf --latency 0ms --step-time 10ms --json");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const Json document = Json::parse(outcome.text, "output");
  EXPECT_EQ(document.find("planned")->as_int(), 8000);
  const Json& point = document.find("points")->as_array().at(0);
  EXPECT_NEAR(point.find("wall_s")->as_number(), 800 * 0.010 / 4, 0.01);
  EXPECT_NEAR(point.find("computing")->as_number(), 1, 0.005);
  EXPECT_NEAR(point.find("speedup")->as_number(), 4, 0.02);
  EXPECT_TRUE(point.find("bandwidth_bit_per_s")->is_null());
  EXPECT_EQ(point.find("simulated_share")->as_number(), 1);
}

TEST_F(SimulateCommand, SweepsGiveATableAndAPlot) {
  const Outcome outcome = run("job.lua --nodes 2 --bandwidth 1Mbit --latency 2ms --step-time 1ms --sweep every=1,20 --sweep nodes=2,3");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const char* part : {"every     nodes", "every=1 nodes=2", "every=20 nodes=3", "█", "simulated in"}) EXPECT_HAS(outcome.text, part);
}

TEST_F(SimulateCommand, TheSameSeedGivesTheSameFigures) {
  const std::string arguments = "job.lua --step-time 5ms --latency 1ms --mtbf 20s --repair 2s --speed-spread 0.4 --json --seed ";
  const auto points = [&](const char* seed) { return Json::parse(run(arguments + seed).text, "output").find("points")->dump(); };
  const std::string one = points("1");
  EXPECT_EQ(points("1"), one);
  EXPECT_NE(points("2"), one);
}

TEST_F(SimulateCommand, AStepIsMeasuredUnlessItIsGiven) {
  const Outcome outcome = run("job.lua --nodes 1 --threads 1 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const Json document = Json::parse(outcome.text, "output");
  const Json& step = *document.find("step");
  EXPECT_GE(step.find("measured_steps")->as_int(), 8);
  EXPECT_EQ(step.find("threads")->as_int(), 1);
  const double step_ms = step.find("step_ms")->as_number();
  EXPECT_GT(step_ms, 0);
  EXPECT_NEAR(document.find("points")->as_array().at(0).find("wall_s")->as_number(), 800 * step_ms / 1e3, 1e-6 * step_ms);
}

TEST_F(SimulateCommand, WithStepTimeParametersAndExamplesNoDataAreNeeded) {
  EXPECT_EQ(run("absent.json --step-time 10ms").code, 3);
  const Outcome outcome = run("absent.json --step-time 10ms --parameters 1000000 --examples 4000 --nodes 2 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const Json document = Json::parse(outcome.text, "output");
  // allreduce of two: each sends its block once for every step of both, 200 of them.
  const double bytes = document.find("points")->as_array().at(0).find("sent_bytes_per_worker")->as_number();
  EXPECT_NEAR(bytes, 200 * 4e6, 0.02 * bytes);
}

TEST_F(SimulateCommand, SaysWhatIsWrongAndWithWhichOption) {
  const std::pair<const char*, const char*> refusals[] = {
      {"job.lua --bandwidth 10", "--bandwidth: the unit is missing"},
      {"job.lua --bandwidth 10Gbitt", "did you mean 'Gbit'"},
      {"job.lua --bandwidth -1Gbit", "--bandwidth: this is no number with a unit"},
      {"job.lua --bandwidth 0bit", "--bandwidth: nothing would ever arrive"},
      {"job.lua --latency 2m", "minutes are 'min'"},
      {"job.lua --latency 100s", "--latency: is too long"},
      {"job.lua --mtbf often", "--mtbf: this is no number with a unit"},
      {"job.lua --sweep every", "name=value,value"},
      {"job.lua --sweep every=1,,5", "name=value,value"},
      {"job.lua --sweep bandwith=1Gbit", "did you mean 'bandwidth'"},
      {"job.lua --sweep nodes=1.5", "--sweep nodes: is no whole number"},
      {"job.lua --sweep every=1,2,3,4,5,6,7,8,9 --sweep nodes=1,2,3,4,5,6,7,8", "at most 64"},
      {"job.lua --sweep average_optimizer=true", "changes what is measured"},
      {"job.lua --step-time 0ms", "--step-time: takes no time"},
      {"job.lua --parameters 10", "--parameters: goes with --step-time only"},
      {"job.lua --step-time 1ms --examples 10", "only half of what replaces the data set"},
  };
  for (const auto& [arguments, part] : refusals) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_HAS(outcome.text, part);
  }
  EXPECT_EQ(run("job.lua --sweep every=0").code, 4);
}

}  // namespace
}  // namespace perigee
