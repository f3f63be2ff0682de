// Keys of a job that change how it trains: what is frozen, rates by names, rates that fall on a plateau.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "src/model/model_reader.h"
#include "src/run/checkpoint_folder.h"
#include "src/run/plateau.h"
#include "src/run/session.h"
#include "tests/io/temporary.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

std::vector<float> parameter(Trainer& trainer, const std::string& name) {
  Params& params = trainer.model().params();
  const int i = params.find(name);
  const auto* values = reinterpret_cast<const float*>(params.parameter(i));
  return {values, values + params.windows()[static_cast<size_t>(i)].elements};
}

std::vector<float> state(Trainer& trainer, const std::string& name) {
  Params& params = trainer.model().params();
  const int i = params.find_state(name);
  const auto* values = reinterpret_cast<const float*>(params.state(i));
  return {values, values + params.state_specs()[static_cast<size_t>(i)].shape.elements()};
}

std::string normed_network(const std::string& bn) {
  return R"([{"type": "conv2d", "out": 4, "kernel": 5, "stride": 2}, {"type": "batchnorm")" + bn + R"(}, {"type": "dense", "out": 10}])";
}

Json run_in(const std::string& folder, const Job& job, const std::string& resume = "", int threads = 1) {
  SessionOptions options;
  options.trainer.threads = threads;
  if (resume.empty()) options.out = folder;
  options.resume = resume;
  Session session(job, options);
  const std::atomic<bool> never{false};
  return session.run(never);
}

// A layer that is not trained goes by its running statistics, as evaluation does, and leaves them as they are.
TEST(Freeze, ALayerThatIsNotTrainedKeepsItsRunningStatistics) {
  Trainer trainer(job_of(normed_network(R"(, "trainable": false)")), {.threads = 2});
  for (int i = 0; i < 5; ++i) trainer.step();
  EXPECT_EQ(state(trainer, "bn1.mean"), std::vector<float>(4, 0.0f));
  EXPECT_EQ(state(trainer, "bn1.variance"), std::vector<float>(4, 1.0f));
  Trainer free(job_of(normed_network("")), {.threads = 2});
  free.step();
  EXPECT_NE(state(free, "bn1.mean"), std::vector<float>(4, 0.0f));
}

TEST(Freeze, TheStepsLossIsThatOfTheEvaluation) {
  const std::string data = R"(, "data": {"train": {"type": "digits", "size": 16, "endless": false}, "batch": 16, "shuffle": false})";
  for (const bool frozen : {true, false}) {
    Trainer trainer(Job(Json::parse(R"({"loss": "cross_entropy", "optimizer": "sgd", "seed": 3, "network": )" +
                                        normed_network(frozen ? R"(, "trainable": false)" : "") + data + "}",
                                    "job"),
                        "job"),
                    {.threads = 1});
    const double before = trainer.evaluate("train").find("loss")->as_number();
    const double loss = trainer.step().loss;
    EXPECT_EQ(std::fabs(loss - before) < 1e-5, frozen) << loss - before;
  }
}

TEST(Freeze, PatternsFreezeParametersAndStatisticsAlsoInAResumedRun) {
  const TemporaryFolder folder;
  run_in(folder / "base", job_of(normed_network("")));
  const std::string pretrained = R"(, "pretrained": {"model": ")" + (folder / "base") + R"(", "freeze": ["conv*", "bn*"]})";
  const auto job = [&](int epochs) {
    Json json = job_of(normed_network(""), pretrained).json();
    json.set("optimizer", Json(Json::Object{{"type", "adam"}, {"lr", 0.01}}));
    json.set("epochs", epochs);
    return Job(json, "job");
  };
  run_in(folder / "half", job(1));
  run_in("", job(2), folder / "half");
  run_in(folder / "whole", job(2));
  const auto bits = [&](const std::string& run) {
    const Safetensors file = read_model_file(folder / (run + "/model.safetensors"));
    std::map<std::string, std::string> all;
    for (const NamedTensor& tensor : file.tensors)
      all[tensor.name] = std::string(static_cast<const char*>(tensor.tensor.view().data), tensor.tensor.bytes());
    return all;
  };
  const auto base = bits("base"), half = bits("half"), whole = bits("whole");
  for (const char* name : {"conv1.weight", "conv1.bias", "bn1.weight", "bn1.bias", "state/bn1.mean", "state/bn1.variance"}) {
    EXPECT_EQ(half.at(name), base.at(name)) << name;
    EXPECT_EQ(whole.at(name), base.at(name)) << name;
  }
  EXPECT_NE(whole.at("dense1.weight"), base.at("dense1.weight"));
  EXPECT_EQ(half, whole) << "the resumed run ends with the same bits";
}

TEST(RateScales, TheLongestPatternGivesTheFactor) {
  const std::string scales = R"(, "lr_scale": {"*": 0.5, "conv*": 0.25, "dense1.bias": 0})";
  const auto job = [&](const std::string& more) {
    Json json = job_of(normed_network(""), more).json();
    json.set("optimizer", Json::parse(R"({"type": "sgd", "lr": 0.1})", "optimizer"));
    return Job(json, "job");
  };
  Trainer plain(job(""), {.threads = 1}), scaled(job(scales), {.threads = 1});
  std::map<std::string, std::vector<float>> before;
  for (const char* name : {"conv1.weight", "dense1.bias", "dense1.weight"}) before[name] = parameter(plain, name);
  plain.step(), scaled.step();
  for (const auto& [name, factor] : {std::pair{"conv1.weight", 0.25}, {"dense1.bias", 0.0}, {"dense1.weight", 0.5}}) {
    const std::vector<float> one = parameter(plain, name), other = parameter(scaled, name);
    double moved = 0;
    for (size_t i = 0; i < one.size(); ++i) {
      const double whole = one[i] - before[name][i];
      moved = std::max(moved, std::fabs(whole));
      EXPECT_NEAR(other[i] - before[name][i], factor * whole, 1e-6) << name;
    }
    EXPECT_GT(moved, 1e-4);
  }
}

TEST(RateScales, RefusesPatternsThatMatchNothingOrDisagree) {
  EXPECT_EQ(failure_of(tiny_job(R"(, "lr_scale": {"dens1.bias": 0.1})")),
            "job: lr_scale: 'dens1.bias' is a pattern that no parameter matches; did you mean 'dense1.bias'?");
  EXPECT_EQ(failure_of(tiny_job(R"(, "lr_scale": {"dense*": 0.1, "*.bias": 0.2})")),
            "job: lr_scale: '*.bias' and 'dense*' are equally long, and both are patterns of 'dense1.bias'; expected one factor for each "
            "parameter; give 'dense1.bias' a longer pattern");
  EXPECT_NE(failure_of(tiny_job(R"(, "lr_scale": {"dense*": -1})")).find("out of range"), std::string::npos);
}

// torch.optim.lr_scheduler.ReduceLROnPlateau(SGD([p], lr=1), factor=0.5, patience=1, threshold=0.1, threshold_mode="abs", cooldown=COOLDOWN,
// min_lr=0.125), stepped with kFigures; the rates after each. It lets one evaluation more pass than it is told.
constexpr double kFigures[] = {1.0, 0.95, 0.92, 0.7, 0.69, 0.68, 0.66, 0.65, 0.64, 0.66, 0.67, 0.7, 0.71, 0.3, 0.31, 0.32, 0.33, 0.4};

TEST(Plateau, FallsWhenPyTorchDoes) {
  const std::vector<double> without_cooldown{1,     1,     0.5,   0.5,   0.5,   0.25,  0.25,  0.125, 0.125,
                                             0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125};
  const std::vector<double> with_cooldown{1,    1,     0.5,   0.5,   0.5,   0.5,   0.25,  0.25,  0.25,
                                          0.25, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125};
  for (const int cooldown : {0, 2}) {
    const Json json = Json::parse(R"({"metric": "test.loss", "factor": 0.5, "patience": 2, "min_improvement": 0.1, "min_factor": 0.125,
                                      "cooldown": )" +
                                      std::to_string(cooldown) + "}",
                                  "test");
    Plateau plateau{Config(json, "test")}, resumed{Config(json, "test")};
    for (size_t i = 0; i < std::size(kFigures); ++i) {
      plateau.after_epoch(kFigures[i]);
      resumed.after_epoch(kFigures[i]);
      EXPECT_EQ(plateau.factor(), (cooldown == 0 ? without_cooldown : with_cooldown)[i]) << "cooldown " << cooldown << ", evaluation " << i;
      const Json kept = resumed.state();
      resumed = Plateau(Config(json, "test"));
      resumed.restore(kept);
      EXPECT_EQ(resumed.factor(), plateau.factor());
    }
  }
}

TEST(Plateau, TheFactorIsOnTheRateAndOnThatOfBiases) {
  const auto stepped = [](double rate, double bias_rate, double factor) {
    Json json = tiny_job().json();
    json.set("optimizer", Json(Json::Object{{"type", "sgd"}, {"lr", rate}, {"bias_lr", bias_rate}}));
    Trainer trainer(Job(json, "job"), {.threads = 1});
    trainer.set_rate_factor(factor);
    trainer.step();
    return bits_of(trainer).parameters;
  };
  EXPECT_EQ(stepped(0.5, 0.25, 0.5), stepped(0.25, 0.125, 1));
  EXPECT_NE(stepped(0.5, 0.25, 1), stepped(0.25, 0.125, 1));
}

TEST(Plateau, TheRateOfARunFallsAndAResumedRunGoesOnWithIt) {
  const TemporaryFolder folder;
  const auto job = [&](int epochs) {
    Json json = tiny_job(R"(, "reduce_on_plateau": {"metric": "train.loss", "patience": 1, "min_improvement": 100, "factor": 0.5})").json();
    json.set("optimizer", Json::parse(R"({"type": "sgd", "lr": 0.08, "bias_lr": 0.04})", "optimizer"));
    json.set("epochs", epochs);
    return Job(json, "job");
  };
  run_in(folder / "half", job(3));
  run_in("", job(5), folder / "half");
  run_in(folder / "whole", job(5));
  Trainer half(job(5), {.threads = 1}), whole(job(5), {.threads = 1});
  const auto bits = [&](const std::string& run, Trainer& trainer) {
    load_checkpoint(trainer, CheckpointFolder(folder / (run + "/checkpoints"), 3).files().front());
    return bits_of(trainer);
  };
  EXPECT_EQ(bits("half", half), bits("whole", whole));
  std::ifstream log(folder / "whole/log.jsonl");
  std::vector<double> factors, rates;
  for (std::string line; std::getline(log, line);) {
    const Json event = Json::parse(line, "log");
    if (const Json* factor = event.find("rate_factor")) factors.push_back(factor->as_number());
    if (*event.find("event") == Json("step") && event.find("learning_rate")) rates.push_back(event.find("learning_rate")->as_number());
  }
  EXPECT_EQ(factors, (std::vector<double>{0.5, 0.25, 0.125, 0.0625}));
  ASSERT_FALSE(rates.empty());
  EXPECT_DOUBLE_EQ(rates.back(), 0.08 * 0.125) << "of the last epoch: the last fall comes after it";
}

}  // namespace
}  // namespace perigee
