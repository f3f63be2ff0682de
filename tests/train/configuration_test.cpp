// A run refuses what it can before its first step, and then leaves nothing behind; labels that fit no output; a test that fails at the end.
#include <gtest/gtest.h>

#include <filesystem>

#include "src/data/arrays.h"
#include "src/run/session.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

// The examples of another source until one of them cannot be read.
class BrokenSource final : public DataSource {
 public:
  explicit BrokenSource(SourcePtr inner) : inner_(std::move(inner)) {}
  int64_t size() const override { return inner_->size(); }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  SourceTraits traits() const override { return {.description = "broken"}; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    if (key.index == 5) throw Error(ErrorKind::data, {"5.png", "cannot be read"});
    inner_->read(key, slots);
  }

 private:
  SourcePtr inner_;
};

class ConfigurationTest : public testing::Test {
 protected:
  ConfigurationTest() {
    char name[] = "/tmp/perigee-configuration-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~ConfigurationTest() override { fs::remove_all(folder_); }

  static std::string digits(const std::string& part) { return R"({"type": "digits", "part": ")" + part + R"(", "size": 64})"; }

  static Job job(const std::string& extra, const std::string& data, int outputs = 10) {
    return Job(
        Json::parse(
            R"({"@places": {"loss": "a.lua:5", "metrics": "a.lua:7"}, "network": [{"type": "dense", "out": )" + std::to_string(outputs) +
                R"(}], "loss": "cross_entropy", "optimizer": "adam", "epochs": 3, "data": {"batch": 16, )" + data + "}" + extra + "}",
            "a.lua"),
        "a.lua");
  }

  Json run(const Job& job) {
    Session session(job, {.trainer = {.threads = 1}, .out = (folder_ / "run").string()});
    session.add_sink([this](const Json& event) { events_.push_back(event); });
    const std::atomic<bool> never{false};
    return session.run(never);
  }

  std::string refusal(const Job& job) {
    try {
      run(job);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
  std::vector<Json> events_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(ConfigurationTest, WatchesWhatOtherEvaluationsMeasure) {
  const std::string data = R"("train": )" + digits("train") + R"(, "validation": )" + digits("test");
  run(job(R"(, "metrics": ["classification", "roc"], "early_stopping": {"metric": "validation.roc.auc", "patience": 2})", data));
  const auto epoch = std::ranges::find_if(events_, [](const Json& event) { return *event.find("event") == Json("epoch"); });
  ASSERT_NE(epoch, events_.end());
  EXPECT_TRUE(epoch->find("validation")->find("roc.auc")->is_number());
  EXPECT_TRUE(epoch->find("validation")->find("accuracy")->is_number());
}

TEST_F(ConfigurationTest, RefusesFiguresThatNothingMeasuresAndLeavesNoFolder) {
  const std::string data = R"("train": )" + digits("train") + R"(, "validation": )" + digits("test");
  std::string text = refusal(job(R"(, "early_stopping": {"metric": "validation.auc"})", data));
  EXPECT_TRUE(has(text, "nothing measures on the validation data; got 'auc'")) << text;
  EXPECT_TRUE(has(text, "metrics = { \"roc\" }")) << text;
  text = refusal(job(R"(, "metrics": ["classification", "roc"], "early_stopping": {"metric": "validation.auc"})", data));
  EXPECT_TRUE(has(text, "did you mean 'validation.roc.auc'?")) << text;
  text = refusal(job(R"(, "metrics": ["accuracy"])", data));
  EXPECT_TRUE(text.starts_with("a.lua:7: metrics: there is no evaluation 'accuracy'")) << text;
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(ConfigurationTest, WatchesTheTrainingItself) {
  const Json end = run(job(R"(, "early_stopping": {"metric": "train.loss", "best": 100})", R"("train": )" + digits("train")));
  ASSERT_NE(end.find("stopped"), nullptr);
  EXPECT_TRUE(has(end.find("stopped")->as_string(), "train.loss reached"));
}

TEST_F(ConfigurationTest, OpensTheTestDataBeforeItTrains) {
  const std::string text = refusal(job("", R"("train": )" + digits("train") + R"(, "test": {"type": "csv", "file": "there-is-none.csv"})"));
  EXPECT_TRUE(has(text, "there-is-none.csv: cannot be opened")) << text;
  EXPECT_TRUE(events_.empty());
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(ConfigurationTest, KeepsTheModelWhenTheTestFails) {
  const Json description = Json::parse(digits("test"), "test");
  register_source("broken-test", std::make_shared<BrokenSource>(open_source(Config(description, "test"), ".")));
  const std::string text = refusal(job("", R"("train": )" + digits("train") + R"(, "validation": )" + digits("test") +
                                               R"(, "test": {"type": "arrays", "handle": "broken-test"})"));
  register_source("broken-test", nullptr);
  EXPECT_TRUE(has(text, "5.png: cannot be read")) << text;
  EXPECT_TRUE(has(text, "run/model.safetensors")) << text;
  EXPECT_TRUE(fs::exists(folder_ / "run/model.safetensors"));
  EXPECT_EQ(*events_.back().find("event"), Json("error"));
}

TEST_F(ConfigurationTest, RefusesMoreClassesThanOutputs) {
  const std::string text = refusal(job("", R"("train": )" + digits("train"), 4));
  EXPECT_TRUE(text.starts_with("a.lua:5: loss: the data have more classes than the network has outputs; got 10 classes in field 'y'"))
      << text;
  EXPECT_TRUE(has(text, "give layer 'dense1' 10 outputs: pg.dense { 10 }")) << text;
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

// A part of the classes may be all that the examples have.
TEST_F(ConfigurationTest, TakesDataWithoutExamplesOfTheOtherClasses) {
  EXPECT_EQ(refusal(job("", R"("train": {"type": "arrays", "x": [[1], [2], [3]], "y": [0, 1, 1], "classes": 5})", 2)), "");
}

TEST_F(ConfigurationTest, NamesTheExampleWhoseLabelFitsNoOutput) {
  const std::string text =
      refusal(job(R"(, "target": "kind")", R"("shuffle": false, "train": {"type": "arrays", "x": [[1], [2], [3]], "kind": [0, 1, 2]})", 2));
  EXPECT_TRUE(has(text, "step 1: field 'kind' of example 2 is no class of the network's output; got 2, expected 0 to 1")) << text;
  EXPECT_TRUE(has(text, "give layer 'dense1' more outputs")) << text;
}

TEST_F(ConfigurationTest, JudgesATargetThatTheLossTakesForAClass) {
  run(job(R"(, "target": "kind")", R"("train": {"type": "arrays", "x": [[1], [2], [3]], "kind": [0, 1, 1]},
    "test": {"type": "arrays", "x": [[1], [2], [3]], "kind": [0, 1, 1]})",
          2));
  EXPECT_TRUE(events_.back().find("test")->find("accuracy")->is_number());
}

}  // namespace
}  // namespace perigee
