// The description of a job and its policy, as JSON; its text is compared in tests/repl.
#include <gtest/gtest.h>

#include "cluster/launch/describe_job.h"
#include "cluster/policy/describe_policy.h"
#include "src/job/job.h"

namespace perigee {
namespace {

Job job_of(const std::string& averaging) {
  const std::string text = R"({"name": "small", "loss": "cross_entropy", "averaging": )" + averaging +
                           R"(, "network": {"type": "sequential", "layers": ["flatten", {"type": "dense", "out": 10, "name": "out"}]},
      "optimizer": {"type": "sgd", "lr": 0.1}, "data": {"train": {"type": "digits", "endless": false, "size": 320}, "batch": 16}})";
  return Job(Json::parse(text, "test"), "test");
}

Json described(const std::string& averaging) { return describe_job(job_of(averaging)); }

TEST(Describe, EveryPolicyIsToldByItsAxes) {
  for (const PolicyDef& def : all_policies()) {
    if (def.own_knobs || def.kind == PolicyDef::Kind::nested) continue;  // they need more than a name
    const Json type = Json(def.name);
    const Json told = describe_policy(read_policy(&type, "test"));
    for (const char* name : {"type", "when", "what", "merge", "synchrony", "topology"}) {
      const Json* value = told.find(name);
      ASSERT_TRUE(value && value->is_string() && !value->as_string().empty()) << def.name << ": " << name;
    }
    EXPECT_TRUE(told.find("gain")->is_number()) << def.name;
    EXPECT_EQ(told.find("server") != nullptr, read_policy(&type, "test").served) << def.name;
  }
}

TEST(Describe, ThePaceReplacesWhatTheRoundsSay) {
  const auto when = [](const char* text) {
    const Json averaging = Json::parse(text, "test");
    return describe_policy(read_policy(&averaging, "test")).find("when")->as_string();
  };
  EXPECT_EQ(when(R"({"type": "periodic", "every": 1})"), "every 1 step");
  EXPECT_EQ(when(R"({"type": "periodic", "every": 7})"), "every 7 steps");
  EXPECT_EQ(when(R"({"type": "periodic", "every_ms": 500})"), "every 500 ms");
  EXPECT_EQ(when(R"({"type": "periodic", "every": 8, "by_speed": true})"),
            "every 8 steps of the fastest worker, fewer of slower ones in proportion");
  EXPECT_EQ(when(R"({"type": "periodic", "every": "auto"})"), "every 1 to 1000 steps, so that 80 % of the time goes into training");
  EXPECT_EQ(when(R"("allreduce")"), "each step");
}

TEST(Describe, AJobHasItsNetworkAndItsFigures) {
  const Json told = described(R"("allreduce")");
  const Json& network = *told.find("network");
  int64_t parameters = 0;
  for (const Json& layer : network.find("layers")->as_array()) parameters += layer.find("parameters")->as_int();
  EXPECT_EQ(parameters, network.find("parameters")->as_int());
  EXPECT_GT(parameters, 0);
  EXPECT_EQ(told.find("effective_batch")->as_int(), 16);
  EXPECT_EQ(told.find("steps_per_epoch")->as_number(), 20);
  EXPECT_EQ(told.find("learning_rate")->as_number(), 0.1);
  EXPECT_GT(told.find("memory")->find("activations")->find("bytes")->as_int(), 0);
  EXPECT_FALSE(told.find("placement")->find("at_coordinator")->as_bool());
}

TEST(Describe, APrecisionIsToldWhereItIsNotFloat32) {
  Json json = job_of(R"("allreduce")").json();
  EXPECT_TRUE(describe_job(Job(json, "test")).find("precision")->as_object().empty());
  json.set("precision", "fp16");
  const Json told = describe_job(Job(json, "test"));
  const Json& precision = *told.find("precision");
  EXPECT_TRUE(precision.find("loss_scale")->find("dynamic")->as_bool());
  EXPECT_GT(precision.find("reference_kernels")->as_int(), 0);
}

TEST(Describe, WhatAnExchangeSendsFollowsThePolicy) {
  const auto first = [](const Json& averaging) { return averaging.find("bytes")->as_array()[0].find("bytes")->as_number(); };
  const Json plain = described(R"("periodic")"), coded = described(R"({"type": "periodic", "codec": "int8"})");
  EXPECT_LT(first(*coded.find("averaging")), first(*plain.find("averaging")));
  EXPECT_NEAR(coded.find("averaging")->find("codec")->find("bits")->as_number(), 8, 1);
  const Json parts = described(R"({"type": "periodic", "every": 20, "fragments": 2})");
  const Json& fragments = *parts.find("averaging")->find("fragments");
  EXPECT_EQ(fragments.find("table")->as_array().size(), 2u);
  EXPECT_FALSE(parts.find("averaging")->find("bytes"));
  const Json served = described(R"("downpour")");
  EXPECT_GT(served.find("averaging")->find("exchange_bytes")->find("up")->as_number(), 0);
  EXPECT_FALSE(served.find("averaging")->find("bytes"));
  EXPECT_EQ(served.find("averaging")->find("kept")->find("pushes")->as_int(), 1024) << "small ones: as many as rounds are remembered";
}

}  // namespace
}  // namespace perigee
