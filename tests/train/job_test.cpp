// Jobs: the top level is checked, --set finds its way, equal jobs have equal canonical forms, YAML reads as JSON does.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "src/core/error.h"
#include "src/job/job.h"
#include "tests/core/refusal.h"

namespace perigee {
namespace {

const char* const kJob = R"({"network": {"type": "sequential", "layers": [{"type": "dense", "out": 3, "name": "a", "@": "x.lua:3"}]},
  "optimizer": "adamw", "loss": "cross_entropy", "data": {"train": {"type": "mnist"}, "batch": 32}, "epochs": 5.0, "seed": null})";

Job example_job() { return Job(Json::parse(kJob, "test"), "runs/x.json"); }

TEST(Job, ChecksItsTopLevel) {
  EXPECT_EQ(refusal([] { Job(Json::parse(R"({"network": {}, "optimiser": "sgd"})", "t"), "j.json"); }),
            "j.json: unknown key 'optimiser'; did you mean 'optimizer'?");
  EXPECT_EQ(refusal([] { Job(Json::parse(R"({"network": {}, "epochs": "5"})", "t"), "j.json"); }),
            "j.json: 'epochs' has the wrong type; got string \"5\", expected an integer from 0 to 4294967296; for example epochs = 10");
  EXPECT_EQ(refusal([] { Job(Json::parse(R"({"loss": "mse"})", "t"), "j.json"); }), "j.json: a job needs a 'network'");
}

TEST(Job, SetChangesWhatThePathNames) {
  Job j = example_job();
  j.set("optimizer.lr", "0.01");
  j.set("network.layers.1.out", "7");
  j.set("network.layers.a.activation", "relu");
  j.set("data.batch", "64");
  j.set("threads", "2");
  EXPECT_EQ(j.json().find("optimizer")->dump(), R"({"type":"adamw","lr":0.01})");
  const Json& layer = j.json().find("network")->find("layers")->as_array()[0];
  EXPECT_EQ(layer.find("out")->as_int(), 7);
  EXPECT_EQ(layer.find("activation")->as_string(), "relu");
  EXPECT_EQ(j.json().find("threads")->as_int(), 2);
}

TEST(Job, SetTakesTablesAsScriptsWriteThem) {
  Job j = example_job();
  j.set("clip", R"({ type = "norm", threshold = 1 })");
  EXPECT_EQ(j.json().find("clip")->dump(), R"({"type":"norm","threshold":1})");
  j.set("lr_scale", R"({["conv*"]=.5, ['dense*'] = 1e-1,})");
  EXPECT_EQ(j.json().find("lr_scale")->dump(), R"({"conv*":0.5,"dense*":0.1})");
  j.set("metrics", R"({ "classification", { type = "roc", curves = false } })");
  EXPECT_EQ(j.json().find("metrics")->dump(), R"(["classification",{"type":"roc","curves":false}])");
  j.set("freeze", R"(["a"])");
  EXPECT_EQ(j.json().find("freeze")->dump(), R"(["a"])");
  for (const char* text :
       {"{ type = }", "{ type = norm }", "{ 1, a = 2 }", "{ a = 1", "{ a = 1 } }", "{ a == 1 }", "{ a = f() }", "[1, 2", "{ a = \"\\n\" }"})
    EXPECT_EQ(refusal([&] { j.set("clip", text); }).find("clip: the value is neither JSON nor a table of plain values"), 0u) << text;
  EXPECT_NE(refusal([&] { j.set("clip", std::string(100, '{')); }).find("neither JSON"), std::string::npos);
}

TEST(Job, SetKnowsTheAutomaticNamesOfLayers) {
  Job j(Json::parse(R"({"network": {"layers": [{"type": "dense", "out": 3}, {"type": "conv2d"}, {"type": "dense", "out": 4}]}})", "test"),
        "x.json");
  j.set("network.layers[2].out", "8");  // as messages write the second layer
  EXPECT_EQ(j.json().find("network")->find("layers")->as_array()[1].find("out")->as_int(), 8);
  j.set("network.layers.dense2.out", "9");
  EXPECT_EQ(j.json().find("network")->find("layers")->as_array()[2].find("out")->as_int(), 9);
  EXPECT_NE(refusal([&] { j.set("network.layers.dense3.out", "9"); }).find("no element 'dense3'; expected 1 to 3, or a layer's name"),
            std::string::npos);
}

TEST(Job, SetTakesKeysWithBrackets) {  // as columns of the project's own are called
  Job j = example_job();
  j.set("data.train", R"({"type": "table", "steps": [{"type": "rename", "names": {"x[1]": "a"}}]})");
  j.set("data.train.steps[1].names.x[1]", "b");
  j.set("data.train.steps[1].names.city[Rome]", "c");
  EXPECT_EQ(j.json().find("data")->find("train")->find("steps")->as_array()[0].find("names")->dump(), R"({"x[1]":"b","city[Rome]":"c"})");
}

TEST(Job, SetRefusesWhatIsNotThere) {
  Job j = example_job();
  EXPECT_EQ(refusal([&] { j.set("epoch", "3"); }), "epoch: there is no 'epoch' here; did you mean 'epochs'?");
  EXPECT_NE(refusal([&] { j.set("data.bach", "3"); }).find("did you mean 'batch'"), std::string::npos);
  EXPECT_NE(refusal([&] { j.set("network.layers.1.activatoin", "relu"); }).find("did you mean 'activation'"), std::string::npos);
  EXPECT_NE(refusal([&] { j.set("network.layers.4.out", "1"); }).find("no element '4'"), std::string::npos);
  EXPECT_NE(refusal([&] { j.set("network.layers.0.out", "1"); }).find("no element '0'; expected 1 to 1"), std::string::npos);
  EXPECT_NE(refusal([&] { j.set("network.layers[0].out", "1"); }).find("places count from 1"), std::string::npos);
  EXPECT_NE(refusal([&] { j.set("epochs.x", "1"); }).find("no 'x' here"), std::string::npos);
  EXPECT_EQ(j.json(), example_job().json());
}

TEST(Job, CanonicalFormsOfEqualJobsAreEqual) {
  const Json a = example_job().canonical();
  const Json b =
      Job(Json::parse(R"({"epochs": 5, "data": {"batch": 32.0, "train": {"type": "mnist"}}, "loss": "cross_entropy", "perigee": 1,
    "optimizer": "adamw", "network": {"layers": [{"name": "a", "out": 3, "type": "dense"}], "type": "sequential"}})",
                      "t"),
          "other.json")
          .canonical();
  EXPECT_EQ(a.dump(), b.dump());
  EXPECT_EQ(a.dump().find("x.lua"), std::string::npos);
  EXPECT_EQ(a.as_object()[0].first, "perigee");
}

TEST(Job, IsLoadedFromYamlAsFromJson) {
  const std::string path = testing::TempDir() + "perigee_job_test.yaml";
  std::ofstream(path) << "network:\n  layers:\n    - {type: dense, out: 3}\nepochs: 2\n";
  const Job j = Job::load(path);
  std::remove(path.c_str());
  EXPECT_EQ(j.json().find("epochs")->as_int(), 2);
  EXPECT_EQ(j.json().find("network")->dump(), R"({"layers":[{"type":"dense","out":3}]})");
  EXPECT_EQ(j.name(), "perigee_job_test");
}

}  // namespace
}  // namespace perigee
