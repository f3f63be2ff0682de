// Runs of several phases: that they train what the same runs by hand train, go on after a stop with the same bits, and refuse at the start what
// a later phase cannot do.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "cluster/launch/cluster_job.h"
#include "src/job/job_parts.h"
#include "src/model/model_file.h"
#include "src/model/model_reader.h"
#include "src/run/session.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr const char* kData = R"("seed": 5, "name": "phased", "optimizer": {"type": "adam", "lr": 0.01},
  "data": {"train": {"type": "digits", "size": 96, "endless": false}, "test": {"type": "digits", "part": "test", "size": 32}, "batch": 16, "shuffle": false})";

std::string coder(const char* freeze = "") {
  return R"({"network": ["flatten", {"type": "dense", "out": 12, "activation": "tanh", "name": "encoder"},
    {"type": "dense", "out": 784, "activation": "sigmoid", "name": "decoder"}, {"type": "reshape", "shape": [1, 28, 28]}],
    "loss": "mse", "target": "x", "epochs": 2)" +
         std::string(freeze) + "}";
}

std::string classifier(const char* more = "") {
  return R"({"network": ["flatten", {"type": "dense", "out": 12, "activation": "tanh", "name": "encoder"}, {"type": "dense", "out": 10, "name": "classes"}],
    "loss": "cross_entropy", "epochs": 2)" +
         std::string(more) + "}";
}

// Stops the run after so many steps.
struct StopAfter final : Hook {
  StopAfter(int64_t at, std::atomic<bool>* stop) : at_(at), stop_(stop) {}
  void on_step(Trainer&, const StepReport& report) override {
    if (report.step >= at_) *stop_ = true;
  }
  int64_t at_;
  std::atomic<bool>* stop_;
};

class PhasesTest : public testing::Test {
 protected:
  PhasesTest() {
    char name[] = "/tmp/perigee-phases-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~PhasesTest() override { fs::remove_all(folder_); }

  static Job job(const std::string& more) { return Job(Json::parse("{" + std::string(kData) + ", " + more + "}", "job"), "job"); }
  static Job phased(const std::vector<std::string>& phases, const std::string& more = "") {
    std::string list;
    for (const std::string& phase : phases) list += (list.empty() ? "" : ", ") + phase;
    return job(R"("phases": [)" + list + "]" + more);
  }
  static Job alone(const std::string& phase, const std::string& more = "") {
    Json json = Json::parse(phase, "phase");
    const Json whole = Json::parse("{" + std::string(kData) + more + "}", "job");
    for (const auto& [key, value] : whole.as_object())
      if (!json.find(key)) json.set(key, value);
    return Job(std::move(json), "job");
  }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  Json run(const Job& job, const std::string& name, int64_t stop_after = 0, bool resume = false) {
    std::atomic<bool> stop{false};
    StopAfter hook(stop_after, &stop);
    SessionOptions options{.trainer = {.threads = 1, .measure = false}};
    (resume ? options.resume : options.out) = at(name);
    if (stop_after > 0) options.hook = &hook;
    Session session(job, options);
    events_.clear();
    session.add_sink([this](const Json& event) { events_.push_back(event); });
    return session.run(stop);
  }

  Safetensors model(const std::string& name, const char* file = "/model.safetensors") const { return read_safetensors(at(name) + file); }

  static bool same(const Safetensors& a, const Safetensors& b, const std::string& name) {
    const Tensor *x = a.find(name), *y = b.find(name);
    return x && y && x->shape() == y->shape() && std::memcmp(x->view().data, y->view().data, x->bytes()) == 0;
  }
  static void expect_same(const Safetensors& a, const Safetensors& b) {
    ASSERT_EQ(a.tensors.size(), b.tensors.size());
    for (const NamedTensor& each : a.tensors) EXPECT_TRUE(same(a, b, each.name)) << each.name;
  }

  static std::string refusal(const Job& job) {
    try {
      const Session session(job, {.trainer = {.threads = 1, .measure = false}, .folder = false});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  std::vector<Json> of_kind(const char* kind) const {
    std::vector<Json> found;
    for (const Json& event : events_)
      if (*event.find("event") == Json(kind)) found.push_back(event);
    return found;
  }

  fs::path folder_;
  std::vector<Json> events_;
};

TEST_F(PhasesTest, TrainsWhatTheSameRunsByHandTrain) {
  run(alone(coder()), "first");
  run(alone(classifier(), R"(, "pretrained": {"model": ")" + at("first") + R"(/model.safetensors", "partial": true})"), "second");
  const Json end = run(phased({coder(), classifier()}), "both");
  expect_same(model("both"), model("second"));
  EXPECT_EQ(end.find("steps")->as_int(), 24);
  EXPECT_EQ(end.find("epochs")->as_int(), 4);
}

TEST_F(PhasesTest, StepsAndEpochsCountOnAndEventsTellOfPhases) {
  run(phased({coder(), classifier()}), "both");
  const std::vector<Json> phases = of_kind("phase"), epochs = of_kind("epoch"), starts = of_kind("start");
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[1].find("name")->as_string(), "phase 2");
  EXPECT_EQ(phases[1].find("step")->as_int(), 12);
  ASSERT_EQ(epochs.size(), 4u);
  EXPECT_EQ(epochs[3].find("epoch")->as_int(), 4);
  EXPECT_EQ(epochs[3].find("phase")->as_int(), 2);
  EXPECT_EQ(epochs[3].find("step")->as_int(), 24);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].find("epochs_planned")->as_number(), 4);
  double progress = 0;
  for (const Json& step : of_kind("step")) {
    EXPECT_GE(step.find("progress")->as_number(), progress);
    progress = step.find("progress")->as_number();
  }
  EXPECT_EQ(progress, 1);
}

TEST_F(PhasesTest, ParametersThatAPhaseLacksComeBackInALaterOne) {
  const std::string still = R"(, "optimizer": {"type": "sgd", "lr": 0})";
  run(alone(coder()), "first");
  run(phased({coder(), classifier(still.c_str()), coder(still.c_str())}), "all");
  EXPECT_TRUE(same(model("all"), model("first"), "decoder.weight"));
  EXPECT_TRUE(same(model("all"), model("first"), "encoder.weight"));
}

TEST_F(PhasesTest, FrozenParametersStay) {
  run(alone(coder()), "first");
  run(phased({coder(), classifier(R"(, "freeze": ["encoder.*"])")}), "frozen");
  EXPECT_TRUE(same(model("frozen"), model("first"), "encoder.weight"));
  EXPECT_TRUE(same(model("frozen"), model("first"), "encoder.bias"));
}

TEST_F(PhasesTest, GoesOnInAnyPhaseWithTheSameBits) {
  const Job job = phased({coder(), classifier(), coder()}, R"(, "checkpoint": {"every_steps": 5, "every_epochs": 0})");
  run(job, "whole");
  for (const int64_t stop : {4, 12, 13, 19, 24, 30}) {
    const std::string name = "stopped-" + std::to_string(stop);
    EXPECT_EQ(run(job, name, stop).find("stopped")->as_string(), "interrupted") << stop;
    const Json end = run(job, name, 0, true);
    EXPECT_EQ(end.find("steps")->as_int(), 36) << stop;
    expect_same(model(name), model("whole"));
  }
}

// A run that was killed has no checkpoint of its last moment.
TEST_F(PhasesTest, GoesOnFromTheCheckpointWithWhichAPhaseBegan) {
  const Job job = phased({coder(), classifier()}, R"(, "checkpoint": {"every_epochs": 0})");
  run(job, "whole");
  run(job, "killed", 14);
  fs::remove(at("killed") + "/checkpoints/step-000000000014.safetensors");
  ASSERT_TRUE(fs::exists(at("killed") + "/checkpoints/step-000000000012.safetensors"));
  run(job, "killed", 0, true);
  expect_same(model("killed"), model("whole"));
}

TEST_F(PhasesTest, SchedulesAndRulesBeginAnewInEachPhase) {
  const std::string schedule = R"(, "optimizer": {"type": "adam", "lr": {"type": "linear", "from": 0.02, "to": 0}})";
  run(phased({coder(schedule.c_str()), classifier(schedule.c_str())}), "both");
  const std::vector<Json> steps = of_kind("step");
  ASSERT_GE(steps.size(), 4u);
  for (const Json& step : steps) {
    const double done = static_cast<double>((step.find("step")->as_int() - 1) % 12) / 12;
    EXPECT_NEAR(step.find("learning_rate")->as_number(), 0.02 * (1 - done), 1e-9) << step.dump();
  }
}

TEST_F(PhasesTest, ThatStopsEarlyHandsOnItsBestEpoch) {
  // It diverges after its first epoch.
  const std::string early = R"(, "early_stopping": {"metric": "test.loss", "patience": 1}, "epochs": 9,
    "optimizer": {"type": "sgd", "lr": {"type": "map", "values": {"0": 0.05, "1": 90}, "by": "epoch"}})";
  std::string first = classifier();
  first = first.substr(0, first.find(R"(, "epochs")")) + early + "}";
  const std::string still = classifier(R"(, "optimizer": {"type": "sgd", "lr": 0})");
  run(alone(first), "first");
  run(phased({first, still}), "both");
  expect_same(model("both"), model("first"));
  EXPECT_NE(of_kind("phase")[1].find("before"), nullptr);
}

TEST_F(PhasesTest, RefusesAtTheStartWhatALaterPhaseCannotDo) {
  std::string other = classifier();
  other.replace(other.find("12"), 2, "13");
  EXPECT_NE(refusal(phased({coder(), other})).find("job: phases[2]: network: 'encoder.weight' has another shape than in the phase before"),
            std::string::npos)
      << refusal(phased({coder(), other}));
  EXPECT_NE(refusal(phased({coder(), other})).find("give the layer a name of its own: name = \"...\""), std::string::npos);
  EXPECT_NE(refusal(phased({coder(), classifier(R"(, "freeze": ["coder.*"])")}))
                .find("job: phases[2]: 'freeze' has a pattern that no parameter matches"),
            std::string::npos)
      << refusal(phased({coder(), classifier(R"(, "freeze": ["coder.*"])")}));
  const auto wrong = [](const std::string& phases) {
    try {
      job(R"("network": ["flatten"], "phases": )" + phases);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(wrong("[]").find("job: phases: is an empty list"), std::string::npos) << wrong("[]");
  EXPECT_NE(wrong("[3]").find("is no table"), std::string::npos) << wrong("[3]");
  EXPECT_NE(wrong(R"([{"epoch": 3}])").find("job: phases: unknown key 'epoch'; did you mean 'epochs'?"), std::string::npos)
      << wrong(R"([{"epoch": 3}])");
}

TEST_F(PhasesTest, RefusesCheckpointsThatDoNotFit) {
  const Job three = phased({coder(), classifier(), coder()});
  run(three, "run", 30);
  const auto refused = [&](const Job& job) {
    try {
      run(job, "run", 0, true);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refused(phased({coder(), classifier()})).find("the checkpoint is of a phase that the job does not have"), std::string::npos);
  fs::remove(at("run") + "/phases.safetensors");
  EXPECT_NE(refused(three).find("the phases before; resume in the folder that the run was started in, or start it anew"),
            std::string::npos);
}

TEST_F(PhasesTest, OneRunInAClusterIsOnePhase) {
  try {
    ClusterJob(phased({coder(), classifier()}), {.threads = 1, .measure = false});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("several workers train the phases of a job one after the other"), std::string::npos)
        << error.what();
  }
}

TEST_F(PhasesTest, AJobMayHaveNetworksInItsPhasesAlone) {
  const Job job = phased({coder(), classifier()});
  EXPECT_EQ(*job.json().find("network"), *phase_job(job, 1).json().find("network"));
  const Job again(job.canonical(), "job");
  EXPECT_EQ(again.canonical(), job.canonical());
  EXPECT_EQ(phase_job(again, 1).canonical(), phase_job(job, 1).canonical());
}

}  // namespace
}  // namespace perigee
