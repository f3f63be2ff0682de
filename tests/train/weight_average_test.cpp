// "ema" and "swa": averages of the weights, which are what is judged, used and stored.
#include "src/train/weight_average.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "src/model/inference.h"
#include "src/model/model_reader.h"
#include "src/run/checkpoint_folder.h"
#include "src/run/session.h"
#include "src/train/batch_statistics.h"
#include "tests/io/temporary.h"
#include "tests/train/networks.h"
#include "tests/train/references/weight_average_reference.h"

namespace perigee {
namespace {

Json run_in(const std::string& folder, const Job& job, const std::string& resume = "") {
  SessionOptions options;
  options.trainer.threads = 2;
  if (resume.empty()) options.out = folder;
  options.resume = resume;
  Session session(job, options);
  const std::atomic<bool> never{false};
  return session.run(never);
}

struct Numbers {
  Numbers()
      : params({{.name = "weight", .shape = Shape{reference::kWeights}}},
               {{.name = "mean", .shape = Shape{reference::kStatistics}}, {.name = "count", .shape = Shape{1}, .dtype = Dtype::i64}}) {}
  void move(int t) {
    auto* weight = reinterpret_cast<float*>(params.parameter(0));
    auto* mean = reinterpret_cast<float*>(params.state(0));
    for (int i = 0; i < reference::kWeights; ++i) weight[i] = static_cast<float>(std::sin(3 * t + i));
    for (int i = 0; i < reference::kStatistics; ++i) mean[i] = static_cast<float>(std::cos(t + 2 * i));
    *reinterpret_cast<int64_t*>(params.state(1)) = t;
  }
  Params params;
};

// Every step is an epoch.
void expect_average(const std::string& options, const double* expected) {
  const Job job(Json::parse(R"({"epochs": 9, "data": {}, "network": [], )" + options + "}", "job"), "job");
  for (const int threads : {1, 2}) {
    Numbers numbers;
    const auto average = WeightAverage::of(job, numbers.params);
    ASSERT_TRUE(average);
    ThreadTeam team(threads);
    for (int t = 1; t <= reference::kSteps; ++t) {
      numbers.move(t);
      if (average->counts(t, t, true)) average->add(numbers.params, team);
    }
    average->exchange(numbers.params);
    const auto* weight = reinterpret_cast<const float*>(numbers.params.parameter(0));
    const auto* mean = reinterpret_cast<const float*>(numbers.params.state(0));
    for (int i = 0; i < reference::kWeights; ++i) EXPECT_NEAR(weight[i], expected[i], 1e-6) << options << i;
    for (int i = 0; i < reference::kStatistics; ++i) EXPECT_NEAR(mean[i], expected[reference::kWeights + i], 1e-6) << options << i;
    EXPECT_EQ(*reinterpret_cast<const int64_t*>(numbers.params.state(1)), reference::kSteps);
    average->exchange(numbers.params);
    EXPECT_EQ(reinterpret_cast<const float*>(numbers.params.parameter(0))[1], static_cast<float>(std::sin(3 * reference::kSteps + 1)));
  }
}

TEST(WeightAverage, IsThatOfPyTorch) {
  expect_average(R"("ema": {"decay": 0.8})", reference::kEma);
  expect_average(R"("ema": {"decay": 0.8, "from_step": 3, "every": 2})", reference::kEmaOfEverySecond);
  expect_average(R"("swa": {"from_epoch": 4})", reference::kSwa);
}

TEST(WeightAverage, OfTheLastQuarterOfTheEpochsByDefault) {
  const auto first_of = [](int epochs) {
    Numbers numbers;
    const Job job(Json::parse(R"({"data": {}, "network": [], "swa": {}, "epochs": )" + std::to_string(epochs) + "}", "job"), "job");
    const auto average = WeightAverage::of(job, numbers.params);
    int first = 1;
    while (!average->counts(100 * first, first, true)) ++first;
    EXPECT_FALSE(average->counts(100 * first, first, false)) << "within an epoch";
    return first;
  };
  EXPECT_EQ(first_of(1), 1);
  EXPECT_EQ(first_of(4), 4);
  EXPECT_EQ(first_of(100), 76);
}

Job averaged_job(const std::string& average, int epochs, bool noisy = true) {
  const std::string more = ", " + average + R"(, "checkpoint": {"every_steps": 1, "keep": 100})";
  Json json = (noisy ? noisy_job(more) : tiny_job(more)).json();
  json.set("optimizer", Json::parse(R"({"type": "sgd", "lr": 0.1})", "optimizer"));
  json.set("epochs", epochs);
  json.find("data")->set("test", Json::parse(R"({"type": "digits", "part": "test", "size": 64})", "test"));
  return Job(json, "job");
}

std::map<std::string, std::vector<float>> model_at(const std::string& path) {
  std::map<std::string, std::vector<float>> all;
  for (const NamedTensor& tensor : read_model_file(path).tensors) {
    const auto* values = static_cast<const float*>(tensor.tensor.view().data);
    all[tensor.name] = {values, values + tensor.tensor.elements()};
  }
  return all;
}

std::vector<float> parameter(const Trainer& trainer, const std::string& name) {
  const Params& params = trainer.model().params();
  const Tensor tensor = params.parameter_tensor(params.find(name));
  const auto* values = static_cast<const float*>(tensor.view().data);
  return {values, values + tensor.elements()};
}

// After each step of a run, by its own weights.
TEST(WeightAverage, IsWhatIsStoredAndJudged) {
  const TemporaryFolder folder;
  const Job job = averaged_job(R"("ema": {"decay": 0.8})", 3, false);
  const Json end = run_in(folder / "run", job);
  Trainer trainer(job, {.threads = 2});
  std::vector<double> average;
  while (!trainer.finished()) {
    trainer.step();
    const std::vector<float> weights = parameter(trainer, "dense1.weight");
    if (average.empty()) average.assign(weights.begin(), weights.end());
    else
      for (size_t i = 0; i < weights.size(); ++i) average[i] += 0.2 * (weights[i] - average[i]);
  }
  const auto model = model_at(folder / "run/model.safetensors");
  const auto checkpoint = model_at(CheckpointFolder(folder / "run/checkpoints", 100).files().front());
  double apart = 0;
  for (size_t i = 0; i < average.size(); ++i) {
    EXPECT_NEAR(model.at("dense1.weight")[i], average[i], 1e-6);
    apart = std::max(apart, std::fabs(average[i] - static_cast<double>(parameter(trainer, "dense1.weight")[i])));
  }
  EXPECT_GT(apart, 1e-3) << "the average is not the weights";
  EXPECT_EQ(checkpoint.at("training/dense1.weight"), parameter(trainer, "dense1.weight"));
  EXPECT_EQ(checkpoint.at("dense1.weight"), model.at("dense1.weight")) << "a checkpoint is used as the model is";

  // The figures are those of the model's file; those of the weights alone are others.
  Json plain_json = job.json();
  plain_json.erase("ema");
  Trainer plain(Job(plain_json, "job"), {.threads = 2});
  const auto loss_with = [&](const std::map<std::string, std::vector<float>>& numbers, const std::string& prefix) {
    Params& params = plain.model().params();
    for (size_t i = 0; i < params.specs().size(); ++i)
      std::ranges::copy(numbers.at(prefix + params.specs()[i].name), reinterpret_cast<float*>(params.parameter(static_cast<int>(i))));
    return plain.evaluate("test").find("loss")->as_number();
  };
  const double judged = end.find("test")->find("loss")->as_number();
  EXPECT_EQ(judged, loss_with(model, ""));
  EXPECT_NE(judged, loss_with(checkpoint, "training/"));
  EXPECT_EQ(judged, trainer.evaluate("test").find("loss")->as_number());
  EXPECT_EQ(parameter(trainer, "dense1.weight"), checkpoint.at("training/dense1.weight")) << "the weights are back after it";
}

// Cut before the average begins, in the middle of an epoch, and when it has been added to twice: by both ways to a checkpoint's file. The
// trainer that goes on has made some steps of its own before.
TEST(WeightAverage, AResumedRunGoesOnWithIt) {
  const TemporaryFolder folder;
  for (const char* average : {R"("ema": {"decay": 0.8, "from_step": 5})", R"("swa": {"from_epoch": 1})"}) {
    const Job job = averaged_job(average, 3);
    Trainer whole(job, {.threads = 2});
    while (!whole.finished()) whole.step();
    save_model(whole, folder / "whole.safetensors");
    for (const int cut : {3, 10, 15}) {
      for (const bool snapshot : {false, true}) {
        Trainer first(job, {.threads = 2}), second(job, {.threads = 2});
        CheckpointSnapshot kept;
        for (int i = 0; i < cut; ++i) {
          first.step();
          if (snapshot) kept.take(first, {});
        }
        if (snapshot) kept.write(folder / "cut.safetensors");
        else save_checkpoint(first, folder / "cut.safetensors");
        for (int i = 0; i < 9; ++i) second.step();
        load_checkpoint(second, folder / "cut.safetensors");
        ASSERT_EQ(second.averaged(), first.averaged());
        if (first.averaged()) {
          EXPECT_TRUE(std::ranges::equal(second.average()->parameters(), first.average()->parameters()));
          EXPECT_TRUE(std::ranges::equal(second.average()->states(), first.average()->states()));
        }
        EXPECT_EQ(bits_of(second), bits_of(first));
        while (!second.finished()) second.step();
        EXPECT_EQ(bits_of(second), bits_of(whole)) << average << cut;
        save_model(second, folder / "again.safetensors");
        EXPECT_EQ(model_at(folder / "again.safetensors"), model_at(folder / "whole.safetensors")) << average << cut;
      }
    }
    refresh_statistics(whole, nullptr);
    EXPECT_EQ(run_in(folder / std::string(average, 1, 3), job).find("test")->find("loss")->as_number(),
              whole.evaluate("test").find("loss")->as_number());
  }
}

// The normalised values are the data themselves, whatever the weights are: NumPy's definition is all that is needed. Batches of different sizes
// and a layer that is called twice do not change it.
struct Moments {
  double mean = 0, variance = 0;
};

Moments moments_of(const std::vector<double>& values) {
  Moments m;
  for (const double value : values) m.mean += value / static_cast<double>(values.size());
  for (const double value : values) m.variance += (value - m.mean) * (value - m.mean) / static_cast<double>(values.size());
  return m;
}

std::vector<double> column(int which, double shift) {
  std::vector<double> values;
  for (int i = 0; i < 103; ++i) values.push_back(shift + std::sin(i * (1 + which) * 0.7) * (1 + which) + 0.01 * i);
  return values;
}

Job table_job(const std::string& network, const std::string& more, double shift) {
  std::string x, y;
  for (int i = 0; i < 103; ++i) {
    x += (i ? ", [" : "[") + Json(column(0, shift)[static_cast<size_t>(i)]).dump() + ", " +
         Json(column(1, shift)[static_cast<size_t>(i)]).dump() + "]";
    y += (i ? ", " : "") + std::to_string(i % 2);
  }
  return Job(
      Json::parse(R"({"loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.05}, "seed": 4, "epochs": 4, "network": )" + network +
                      R"(, "data": {"batch": 16, "train": {"type": "arrays", "x": [)" + x + R"(], "y": [)" + y + R"(], "classes": 2}},
                             "swa": {"from_epoch": 3})" +
                      more + "}",
                  "job"),
      "job");
}

TEST(WeightAverage, HasStatisticsOfItsOwnWhenTheRunIsOver) {
  const std::string plain = R"([{"type": "batchnorm", "name": "bn"}, {"type": "dense", "out": 2}])";
  const std::string slow = R"([{"type": "batchnorm", "name": "bn", "decay": 0.99}, {"type": "dense", "out": 2}])";
  for (const auto& [network, more, shift] : {std::tuple{plain, std::string(), 0.0},
                                             {slow, std::string(), 100.0},
                                             {plain, std::string(R"(, "precision": "float64")"), 1000.0},
                                             {plain, std::string(R"(, "accumulate": 3)"), 0.0}})
    for (const int threads : {1, 2}) {
      const TemporaryFolder folder;
      const Job job = table_job(network, more, shift);
      Session session(job, {.trainer = {.threads = threads}, .out = folder / "run"});
      const std::atomic<bool> never{false};
      session.run(never);
      LoadedModel loaded = load_model(folder / "run/model.safetensors");
      const Params& params = loaded.model->params();
      for (int i = 0; i < 2; ++i) {
        const auto value = [&](const char* name) {
          const Tensor tensor = params.state_tensor(params.find_state(name));
          const void* data = tensor.view().data;
          return tensor.dtype() == Dtype::f64 ? static_cast<const double*>(data)[i]
                                              : static_cast<double>(static_cast<const float*>(data)[i]);
        };
        const Moments expected = moments_of(column(i, shift));
        EXPECT_NEAR(value("bn.mean"), expected.mean, 2e-5 * std::max(1.0, shift)) << network << more;
        EXPECT_NEAR(value("bn.variance"), expected.variance, 1e-3 * expected.variance) << network << more;
      }
      // The checkpoint, from which a run goes on, has those of the steps.
      if (!more.empty()) continue;
      const auto checkpoint = model_at(CheckpointFolder(folder / "run/checkpoints", 100).files().front());
      EXPECT_GT(std::fabs(checkpoint.at("state/bn.variance")[0] - moments_of(column(0, shift)).variance), 1e-3);
    }
}

// Behind a layer that has weights, the statistics are those of the averaged weights.
TEST(WeightAverage, HasStatisticsOfItsOwnWeights) {
  const TemporaryFolder folder;
  const Job job =
      table_job(R"([{"type": "dense", "out": 1, "name": "d"}, {"type": "batchnorm", "name": "bn"}, {"type": "dense", "out": 2}])", "", 0);
  run_in(folder / "run", job);
  const auto model = model_at(folder / "run/model.safetensors");
  std::vector<double> values;
  for (size_t i = 0; i < 103; ++i)
    values.push_back(model.at("d.weight")[0] * column(0, 0)[i] + model.at("d.weight")[1] * column(1, 0)[i] + model.at("d.bias")[0]);
  EXPECT_NEAR(model.at("state/bn.mean")[0], moments_of(values).mean, 1e-5);
  EXPECT_NEAR(model.at("state/bn.variance")[0], moments_of(values).variance, 1e-4 * moments_of(values).variance);
}

TEST(WeightAverage, KeepsStatisticsThatTheJobFreezes) {
  const TemporaryFolder folder;
  run_in(folder / "run", table_job(R"([{"type": "batchnorm", "name": "bn", "trainable": false}, {"type": "dense", "out": 2}])", "", 0));
  EXPECT_EQ(model_at(folder / "run/model.safetensors").at("state/bn.variance"), (std::vector<float>{1, 1}));
}

TEST(WeightAverage, IsWhatPredicts) {
  Trainer trainer(averaged_job(R"("ema": {"decay": 0.8})", 3, false), {.threads = 1});
  for (int i = 0; i < 10; ++i) trainer.step();
  const std::vector<float> x(784, 0.5f);
  const auto output = [&] {
    std::vector<float> y(10);
    const void* const input[] = {x.data()};
    trainer.inference().run_all(input, 1, reinterpret_cast<std::byte*>(y.data()));
    return y;
  };
  const std::vector<float> own = output();
  {
    const Trainer::InUse in_use(trainer);
    EXPECT_NE(output(), own);
  }
  EXPECT_EQ(output(), own);
}

TEST(WeightAverage, WithoutOneARunHasTheSameBits) {
  Trainer plain(noisy_job(), {.threads = 1}), averaged(noisy_job(R"(, "ema": {})"), {.threads = 1});
  for (int i = 0; i < 10; ++i) {
    plain.step(), averaged.step();
    averaged.evaluate("train");
  }
  EXPECT_EQ(bits_of(plain), bits_of(averaged)) << "the average does not change what trains";
}

TEST(WeightAverage, RefusesWhatCannotBe) {
  EXPECT_EQ(failure_of(tiny_job(R"(, "swa": {}, "ema": {})")),
            "job: 'swa' and 'ema' are two averages of the same weights; got both, expected one of them");
  EXPECT_EQ(failure_of(tiny_job(R"(, "swa": {"from_epoch": 4})")),
            "job: swa: 'from_epoch' comes after the last epoch; got 4, expected at most 3");
  try {
    tiny_job(R"(, "ema": {"decay": 2})");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("out of range"), std::string::npos);
  }
  Json json = tiny_job(R"(, "swa": {}, "steps": 9)").json();
  json.erase("epochs");
  EXPECT_THROW(Trainer(Job(json, "job"), {.threads = 1}), Error);
}

}  // namespace
}  // namespace perigee
