// Options that change while a run trains: what may, that the numbers are those of a run with them from the start, and that checkpoints keep them.
#include "src/run/run_settings.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "src/job/job_schema.h"
#include "src/run/session.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

Job job_with(const std::string& extra) {
  const std::string text = R"({"name": "set", "loss": "cross_entropy", "seed": 3,
      "network": {"type": "sequential", "layers": ["flatten", {"type": "dense", "out": 10, "name": "out"}]},
      "data": {"train": {"type": "digits", "endless": false, "size": 320}, "batch": 16}, )" +
                           extra + "}";
  return Job(Json::parse(text, "test"), "test");
}

const char* const kSgd = R"("optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.5})";

std::string refused(const Job& job, const std::string& option) {
  try {
    RunSettings(job).resolve(option);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RunSettings, KnowsShortNames) {
  const RunSettings settings(job_with(std::string(kSgd) + R"(, "clip": {"type": "norm", "threshold": 2})"));
  EXPECT_EQ(settings.resolve("lr"), "optimizer.lr");
  EXPECT_EQ(settings.resolve("batch"), "data.batch");
  EXPECT_EQ(settings.resolve("clip.norm"), "clip.threshold");
  EXPECT_EQ(settings.resolve("regularization.l2"), "regularization.l2");
}

// Each key of a job can be set, or the message says why not.
TEST(RunSettings, SaysWhyAnOptionCannotChange) {
  const Job job = job_with(kSgd);
  EXPECT_NE(refused(job, "optimizer.momentun").find("did you mean 'optimizer.momentum'?"), std::string::npos);
  EXPECT_NE(refused(job, "clip.norm").find("start the run with clip = "), std::string::npos);
  EXPECT_NE(refused(job, "early_stopping.patience").find("start the run with early_stopping = "), std::string::npos);
  EXPECT_NE(refused(job, "loss.label_smoothing").find("--set loss.label_smoothing=VALUE"), std::string::npos);
  EXPECT_NE(refused(job, "seed").find("start another run with it"), std::string::npos);
  EXPECT_NE(refused(job, "nothing").find("is no option that can change"), std::string::npos);
  for (const Option& option : job_schema.options) {
    const std::string name = option.name;
    const bool settable = name == "epochs" || name == "steps";
    EXPECT_EQ(refused(job, name).empty(), settable) << name;
    EXPECT_NE(refused(job, name + ".something"), "") << name;
  }
}

TEST(RunSettings, RefusesWhatIsNoValue) {
  const RunSettings settings(job_with(kSgd));
  EXPECT_THROW(settings.with("optimizer.momentum", Json(2.0)), Error);
  EXPECT_THROW(settings.with("optimizer.momentum", Json("fast")), Error);
  EXPECT_THROW(settings.with("data.batch", Json(0)), Error);
  EXPECT_NO_THROW(settings.with("optimizer.momentum", Json(0.25)));
}

TEST(RunSettings, AJobThatSaysOtherwiseNowIsHeeded) {
  RunSettings settings(job_with(kSgd));
  settings.keep("optimizer.momentum", Json(0.25));
  const Json state = settings.state();
  ASSERT_EQ(RunSettings(job_with(kSgd)).changes_of(state).size(), 1u);
  EXPECT_TRUE(RunSettings(job_with(R"("optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.7})")).changes_of(state).empty());
}

// Runs `steps` steps; at step `at` the options are set.
class SetAt : public Hook {
 public:
  SetAt(int64_t at, std::vector<std::pair<std::string, Json>> options) : at_(at), options_(std::move(options)) {}
  Session* session = nullptr;
  void on_step(Trainer&, const StepReport& report) override {
    batches.push_back(report.examples);
    if (report.step != at_) return;
    for (const auto& [option, value] : options_) session->set_option(option, value);
  }
  std::vector<int64_t> batches;

 private:
  int64_t at_;
  std::vector<std::pair<std::string, Json>> options_;
};

std::vector<float> parameters(Session& session) {
  const std::span<const float> all = session.trainer().model().params().values<float>();
  return {all.begin(), all.end()};
}

std::vector<float> trained_set(const Job& job, SetAt& hook, SessionOptions options = {.folder = false}) {
  options.trainer.threads = 1;
  options.hook = &hook;
  Session session(job, options);
  hook.session = &session;
  const std::atomic<bool> never{false};
  session.run(never);
  return parameters(session);
}

std::vector<float> trained_set(const Job& job) {
  SetAt nothing(-1, {});
  return trained_set(job, nothing);
}

// Two weights that are schedules, of a head and of a layer.
const char* const kRise = R"({"type": "ramp", "schedule": 1, "length": 4, "by": "step"})";

Job job_of_terms(const std::string& weight) {
  const std::string text = R"({"name": "terms", "seed": 3, "target": "x", "epochs": 2, "optimizer": {"type": "sgd", "lr": 0.1},
      "network": {"type": "graph", "inputs": ["x"], "outputs": ["one", "two"], "nodes": [
        {"name": "flat", "layer": "flatten", "inputs": ["x"]},
        {"name": "code", "layer": {"type": "dense", "out": 6, "activation": "sigmoid"}, "inputs": ["flat"]},
        {"name": "thin", "layer": {"type": "sparsity", "target": 0.1, "weight": )" +
                           weight + R"(}, "inputs": ["code"]},
        {"name": "one", "layer": {"type": "dense", "out": 10}, "inputs": ["thin"]},
        {"name": "two", "layer": {"type": "dense", "out": 10}, "inputs": ["code"]}]},
      "loss": {"one": {"type": "cross_entropy", "target": "y"}, "two": {"type": "cross_entropy", "target": "y", "weight": )" +
                           weight + R"(}},
      "data": {"train": {"type": "digits", "endless": false, "size": 320}, "batch": 16}})";
  return Job(Json::parse(text, "test"), "test");
}

TEST(RunSettings, WeightsInTheLossThatAreSchedulesCanChange) {
  const Job job = job_of_terms(kRise);
  RunSettings settings = settings_of(job, Json::object());
  for (const char* option : {"loss.two.weight", "terms.thin.weight"}) {
    EXPECT_EQ(settings.resolve(option), option);
    EXPECT_NO_THROW(settings.with(option, Json::parse(kRise, "value")));
    EXPECT_THROW(settings.with(option, Json(-1)), Error);
    EXPECT_THROW(settings.with(option, Json("much")), Error);
    settings.keep(option, Json(0.25));
    EXPECT_EQ(settings.list().find(option)->find("value")->as_number(), 0.25);
    const std::vector<float> unchanged = trained_set(job);
    SetAt hook(5, {{option, Json(0.25)}});
    EXPECT_NE(trained_set(job, hook), unchanged) << option;
  }
  EXPECT_EQ(settings.changed(), job.json());
  EXPECT_EQ(settings.changed_terms().as_object().size(), 2u);
  EXPECT_EQ(settings_of(job, Json::object()).changes_of(settings.state()).size(), 2u);
  EXPECT_TRUE(settings_of(job_of_terms("0.5"), Json::object()).changes_of(settings.state()).empty());
  EXPECT_NE(refused(job_of_terms("0.5"), "loss.two.weight").find("weight = pg.fixed { 1 }"), std::string::npos);
  EXPECT_NE(refused(job_of_terms("0.5"), "terms.thin.weight").find("a factor that is a schedule in the job"), std::string::npos);
}

// A change after the first step of a run whose first step does not depend on it: the numbers of a run that began with it.
TEST(RunSettings, NumbersAreThoseOfARunThatBeganWithThem) {
  struct Row {
    const char *extra, *option, *value, *later;
  };
  const Row rows[] = {
      // The velocity is g after the first step, whatever the momentum is.
      {R"("optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.5})", "optimizer.momentum", "0.9",
       R"("optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9})"},
      {R"("optimizer": {"type": "sgd", "lr": 0.1}, "clip": {"type": "norm", "threshold": 1e9})", "clip.norm", "1e8",
       R"("optimizer": {"type": "sgd", "lr": 0.1}, "clip": {"type": "norm", "threshold": 1e8})"},
  };
  for (const Row& row : rows) {
    SetAt hook(1, {{row.option, Json::parse(row.value, "value")}});
    EXPECT_EQ(trained_set(job_with(std::string(row.extra) + R"(, "epochs": 1)"), hook),
              trained_set(job_with(std::string(row.later) + R"(, "epochs": 1)")))
        << row.option;
  }
}

TEST(RunSettings, EachNumberOfARuleHasAnEffect) {
  const std::string job = R"("optimizer": {"type": "adamw", "lr": 0.01}, "clip": {"type": "norm", "threshold": 1}, "epochs": 2)";
  const std::vector<float> unchanged = trained_set(job_with(job));
  for (const char* option : {"optimizer.lr", "optimizer.beta1", "optimizer.beta2", "optimizer.epsilon", "optimizer.weight_decay",
                             "optimizer.bias_lr", "clip.norm", "regularization.l2", "regularization.l1"}) {
    SetAt hook(5, {{option, Json(0.05)}});
    EXPECT_NE(trained_set(job_with(job), hook), unchanged) << option;
  }
  SetAt hook(5, {{"optimizer.decay_bias", Json(true)}});
  EXPECT_NE(trained_set(job_with(job), hook), unchanged);
}

TEST(RunSettings, ARuleWithoutStatesKeepsNone) {
  SetAt hook(2, {{"optimizer.momentum", Json(0.9)}});
  EXPECT_THROW(trained_set(job_with(R"("optimizer": {"type": "sgd", "lr": 0.1})"), hook), Error);
}

TEST(RunSettings, ABatchOfAnotherSizeGoesOnWhereTheLastEnded) {
  SetAt hook(5, {{"batch", Json(40)}});
  trained_set(job_with(std::string(kSgd) + R"(, "epochs": 2)"), hook);
  std::vector<int64_t> expected(5, 16);
  expected.insert(expected.end(), 6, 40);  // 80 + 240 = 320
  expected.insert(expected.end(), 8, 40);
  EXPECT_EQ(hook.batches, expected);
}

TEST(RunSettings, TheLengthOfARunChanges) {
  SetAt shorter(5, {{"steps", Json(7)}});
  trained_set(job_with(std::string(kSgd) + R"(, "epochs": 5)"), shorter);
  EXPECT_EQ(shorter.batches.size(), 7u);
  SetAt longer(5, {{"epochs", Json(2)}});
  trained_set(job_with(std::string(kSgd) + R"(, "epochs": 1)"), longer);
  EXPECT_EQ(longer.batches.size(), 40u);
}

TEST(RunSettings, EarlyStoppingAndCheckpointsTakeNewNumbers) {
  SetAt hook(1, {{"early_stopping.max_epochs", Json(2)}});
  trained_set(job_with(std::string(kSgd) + R"(, "epochs": 9, "early_stopping": {"metric": "train.loss"})"), hook);
  EXPECT_EQ(hook.batches.size(), 40u);
}

class KeptSettings : public testing::Test {
 protected:
  KeptSettings() {
    char name[] = "/tmp/perigee-settings-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~KeptSettings() override { fs::remove_all(folder_); }
  fs::path folder_;
};

// Stopped after a change and resumed, the run ends with the bits of one that was not stopped.
TEST_F(KeptSettings, AResumedRunGoesOnWithThem) {
  const std::string job = std::string(kSgd) + R"(, "epochs": 2, "checkpoint": {"every_steps": 10})";
  const std::vector<std::pair<std::string, Json>> changes = {
      {"optimizer.momentum", Json(0.9)}, {"batch", Json(32)}, {"checkpoint.keep", Json(9)}};
  SetAt whole(5, changes);
  const std::vector<float> expected = trained_set(job_with(job), whole, {.out = (folder_ / "whole").string()});

  SetAt first(5, changes);
  class StopAt : public Hook {
   public:
    explicit StopAt(std::atomic<bool>& stop) : stop_(stop) {}
    void on_step(Trainer&, const StepReport& report) override { stop_ = stop_ || report.step == 12; }
    std::atomic<bool>& stop_;
  };
  std::atomic<bool> stop{false};
  {
    SessionOptions options{.trainer = {.threads = 1}, .out = (folder_ / "cut").string(), .hook = &first};
    Session session(job_with(job), options);
    first.session = &session;
    StopAt stopper(stop);
    session.trainer().add_hook(&stopper);
    session.run(stop);
  }
  SessionOptions options{.trainer = {.threads = 1}, .resume = (folder_ / "cut").string()};
  Session session(job_with(job), options);
  std::vector<Json> told;
  session.add_sink([&](const Json& event) {
    if (*event.find("event") == Json("set")) told.push_back(event);
  });
  EXPECT_EQ(session.trainer().batch(), 32);
  const std::atomic<bool> never{false};
  session.run(never);
  EXPECT_EQ(parameters(session), expected);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(*told[0].find("option"), Json("optimizer.momentum"));
  EXPECT_EQ(*told[0].find("resumed"), Json(true));
}

}  // namespace
}  // namespace perigee
