// Whole runs: what is evaluated, kept, stopped and left behind.
#include "src/run/session.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/core/warning.h"
#include "src/io/safetensors.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    char name[] = "/tmp/perigee-session-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~SessionTest() override { fs::remove_all(folder_); }

  static Job job(const std::string& extra) {
    return Job(Json::parse(R"({"name": "small", "network": [{"type": "dense", "out": 10}], "loss": "cross_entropy", "seed": 5,
      "data": {"train": {"type": "digits", "size": 128}, "test": {"type": "digits", "part": "test", "size": 128}, "batch": 16}, )" +
                               extra + "}",
                           "job"),
               "job");
  }

  Json run(const Job& job, const std::string& name = "run", const std::string& resume = "") {
    SessionOptions options;
    options.trainer.threads = 1;
    if (resume.empty()) options.out = (folder_ / name).string();
    options.resume = resume;
    Session session(job, options);
    events_.clear();
    session.add_sink([this](const Json& event) { events_.push_back(event); });
    const std::atomic<bool> never{false};
    return session.run(never);
  }

  // The checkpoint is looked for when the run's folder is there.
  void expect_no_start() const {
    const SessionOptions options{.trainer = {.threads = 1}, .out = (folder_ / "run").string(), .resume = (folder_ / "nowhere").string()};
    try {
      Session(job(R"("optimizer": "adam", "epochs": 1)"), options);
      ADD_FAILURE() << "it started";
    } catch (const Error& error) {
      EXPECT_EQ(error.parts().what, "there is no run or checkpoint of this name") << error.what();
    }
  }

  std::vector<double> test_losses() const {
    std::vector<double> losses;
    for (const Json& event : events_)
      if (*event.find("event") == Json("epoch")) losses.push_back(event.find("test")->find("loss")->as_number());
    return losses;
  }

  fs::path folder_;
  std::vector<Json> events_;
};

TEST_F(SessionTest, StartThatFailsTakesItsFolderAway) {
  expect_no_start();
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(SessionTest, StartThatFailsLeavesAnEarlierFolder) {
  fs::create_directory(folder_ / "run");
  expect_no_start();
  EXPECT_TRUE(fs::exists(folder_ / "run"));
}

TEST_F(SessionTest, RemovalOfAStartSparesCheckpointsAndWhatOthersPutThere) {
  for (const char* file : {"with/checkpoints/step-000000001.safetensors", "with/log.jsonl", "noted/notes.txt", "noted/log.jsonl"}) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << "x";
  }
  remove_started_run((folder_ / "with").string());
  remove_started_run((folder_ / "noted").string());
  EXPECT_TRUE(fs::exists(folder_ / "with/log.jsonl"));
  EXPECT_TRUE(fs::exists(folder_ / "noted/notes.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "noted/log.jsonl"));
}

TEST_F(SessionTest, EarlyStoppingKeepsTheBestEpoch) {
  // A learning rate that grows until it does harm.
  const Json end = run(job(R"("optimizer": {"type": "sgd", "lr": {"type": "exponential", "from": 0.05, "gamma": 4}}, "epochs": 50,
                             "early_stopping": {"metric": "test.loss", "patience": 2})"));
  ASSERT_NE(end.find("stopped"), nullptr);
  EXPECT_NE(end.find("stopped")->as_string().find("has not improved for 2"), std::string::npos);
  const std::vector<double> losses = test_losses();
  ASSERT_GE(losses.size(), 3u);
  EXPECT_LT(losses.size(), 50u);
  const double best = *std::min_element(losses.begin(), losses.end());
  EXPECT_GT(losses.back(), best);
  EXPECT_EQ(end.find("test")->find("loss")->as_number(), best) << "the saved model is that of the best epoch";
  EXPECT_NE(end.find("model_of"), nullptr);
}

TEST_F(SessionTest, StopsWhenItIsGoodEnough) {
  const Json end = run(job(R"("optimizer": "adam", "epochs": 50, "early_stopping": {"metric": "test.accuracy", "best": 0.2})"));
  EXPECT_NE(end.find("stopped")->as_string().find("test.accuracy reached"), std::string::npos);
  EXPECT_GE(end.find("test")->find("accuracy")->as_number(), 0.2);
}

TEST_F(SessionTest, RefusesRulesAboutDataThatIsNotThere) {
  EXPECT_THROW(run(job(R"("optimizer": "adam", "early_stopping": {"metric": "validation.loss"})")), Error);
  EXPECT_THROW(run(job(R"("optimizer": "adam", "early_stopping": {"patiense": 3})")), Error);
  EXPECT_THROW(run(job(R"("optimizer": "adam", "checkpoint": {"kep": 3})")), Error);
}

TEST_F(SessionTest, ALongerPlanContinuesAFinishedRun) {
  // A fixed learning rate, so that the plan's length does not matter to the first steps.
  run(job(R"("optimizer": {"type": "adam", "lr": 0.01}, "epochs": 4)"), "whole");
  const std::vector<double> whole = test_losses();
  run(job(R"("optimizer": {"type": "adam", "lr": 0.01}, "epochs": 2)"), "cut");
  run(job(R"("optimizer": {"type": "adam", "lr": 0.01}, "epochs": 4)"), "cut", (folder_ / "cut").string());
  const std::vector<double> rest = test_losses();
  ASSERT_EQ(whole.size(), 4u);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0], whole[2]);
  EXPECT_EQ(rest[1], whole[3]);
}

// Batch norm, whose statistics a gradient of its own must not move.
TEST_F(SessionTest, WhatTensorboardShowsChangesNothing) {
  const auto model_with = [&](const std::string& name, const std::string& log) {
    run(Job(Json::parse(R"({"network": [{"type": "conv2d", "out": 2, "kernel": 3}, {"type": "batchnorm"}, {"type": "dropout", "rate": 0.5},
          {"type": "dense", "out": 10}], "loss": "cross_entropy", "seed": 5, "optimizer": "adam", "epochs": 3, "log": )" +
                            log + R"(, "data": {"train": {"type": "digits", "size": 96}, "batch": 16}})",
                        "job"),
            "job"),
        name);
    std::ostringstream model;
    for (const NamedTensor& each : read_safetensors((folder_ / name / "model.safetensors").string()).tensors)
      model << each.name << std::string_view(reinterpret_cast<const char*>(each.tensor.view().data), each.tensor.bytes());
    return model.str();
  };
  const std::string plain = model_with("plain", R"({"histograms": 0})");
  EXPECT_EQ(plain, model_with("shown", R"({"histograms": 1})"));
  EXPECT_GT(plain.size(), 100u);
}

// Which would be judged by other numbers than the network has learned from.
TEST_F(SessionTest, WarnsOfATestPartThatLacksWhatWasMeasured) {
  const std::string arrays = R"({"type": "arrays", "x": [[1, 2], [3, 4], [5, 7], [6, 9]], "y": [0, 1, 1, 0]})",
                    mapped = R"({"type": "map", "source": )" + arrays + R"(, "transforms": [{"type": "standardize"}]})",
                    scaled = R"({"type": "map", "source": )" + arrays + R"(, "transforms": [{"type": "scale", "factor": 2}]})";
  const auto warnings = [&](const std::string& train, const std::string& test) {
    std::string said;
    const WarningHandler before = set_warning_handler([&](const std::string& text) { said += text; });
    fs::remove_all(folder_ / "run");
    run(Job(Json::parse(R"({"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "adam", "epochs": 1,
            "data": {"train": )" +
                            train + R"(, "test": )" + test + R"(, "batch": 2}})",
                        "job"),
            "job"));
    set_warning_handler(before);
    return said;
  };
  EXPECT_EQ(warnings(mapped, mapped), "");
  EXPECT_EQ(warnings(mapped, R"({"type": "take", "count": 2, "source": )" + mapped + "}"), "");
  EXPECT_EQ(warnings(scaled, arrays), "") << "nothing was measured";
  EXPECT_EQ(
      warnings(mapped, arrays),
      "job: data: 'test' lacks what was measured on the training part: standardize; give it the same transforms: test = ...:map { ... }");
}

TEST_F(SessionTest, KeepsTheBestCheckpointWhenAsked) {
  run(job(R"("optimizer": "adam", "epochs": 5, "checkpoint": {"keep": 2, "best": "test.loss"})"));
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/best.safetensors"));
  size_t steps = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "run/checkpoints"))
    steps += entry.path().filename().string().starts_with("step-");
  EXPECT_EQ(steps, 2u);
}

TEST_F(SessionTest, AFullDiskStopsNothing) {
  std::vector<std::string> warnings;
  const auto before = set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit saved = {};
  getrlimit(RLIMIT_FSIZE, &saved);
  const rlimit small{4096, saved.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Json end = run(job(R"("optimizer": "adam", "epochs": 3)"));
  setrlimit(RLIMIT_FSIZE, &saved);
  set_warning_handler(before);
  EXPECT_EQ(end.find("epochs")->as_int(), 3);
  EXPECT_TRUE(end.find("test")->find("accuracy")->is_number());
  EXPECT_EQ(end.find("model"), nullptr) << "no file is claimed that is not there";
  EXPECT_FALSE(warnings.empty());
  EXPECT_FALSE(fs::exists(folder_ / "run/model.safetensors"));
}

TEST_F(SessionTest, WithoutAFolderNothingIsWritten) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  Session session(job(R"("optimizer": "adam", "epochs": 1)"), {.trainer = {.threads = 1}, .folder = false});
  const std::atomic<bool> never{false};
  const Json end = session.run(never);
  fs::current_path(before);
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_EQ(end.find("model"), nullptr);
}

TEST(Report, NamesClassesAndCountsMistakes) {
  const Json result = Json::parse(R"({"examples": 3, "accuracy": 0.6667, "classes": [
    {"name": "cat", "precision": 1, "recall": 0.5, "f1": 0.6667, "examples": 2}, {"name": "dog", "precision": 0.5, "recall": 1, "f1": 0.6667, "examples": 1}],
    "confusion": [[1, 1], [0, 1]]})",
                                  "report");
  const std::string text = report_text(result);
  EXPECT_NE(text.find("cat       1.0000    0.5000"), std::string::npos) << text;
  EXPECT_NE(text.find("confusion matrix"), std::string::npos);
}

}  // namespace
}  // namespace perigee
