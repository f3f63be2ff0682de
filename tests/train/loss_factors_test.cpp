// Weights of losses that are schedules: each step is that of a job whose weight is the number that the schedule has there.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/core/error.h"
#include "src/model/evaluator.h"
#include "src/run/run_settings.h"
#include "src/train/line_steps.h"
#include "src/train/loss_factors.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

constexpr int kExamples = 48, kSteps = 12;

// Eight numbers between 0 and 1, and two that the second output foretells.
std::string data_of(int64_t batch) {
  Json x = Json::array(), z = Json::array();
  for (int64_t n = 0; n < kExamples; ++n) {
    Json row = Json::array();
    for (int64_t i = 0; i < 8; ++i) row.push(static_cast<double>((n * 37 + i * i * 11 + n * i * 5) % 101) / 101);
    x.push(std::move(row));
    z.push(Json(Json::Array{std::cos(static_cast<double>(n)), std::sin(0.3 * static_cast<double>(n))}));
  }
  return R"("data": {"shuffle": false, "batch": )" + std::to_string(batch) + R"(, "train": {"type": "arrays", "x": )" + x.dump() +
         R"(, "z": )" + z.dump() + "}}";
}

Job job_of(const std::string& network_and_loss, const std::string& more = "", int64_t batch = 24) {
  const std::string rule = more.find("optimizer") == more.npos ? R"("optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.5}, )" : "";
  return Job(Json::parse("{" + network_and_loss + R"(, "precision": "float64", "target": "x", "seed": 3, "epochs": 6, )" + rule +
                             data_of(batch) + more + "}",
                         "job"),
             "job");
}

std::string heads(const std::string& weight) {
  return R"("network": {"type": "graph", "inputs": ["x"], "outputs": ["same", "two"], "nodes": [
      {"name": "code", "layer": {"type": "dense", "out": 5, "activation": "tanh"}, "inputs": ["x"]},
      {"name": "same", "layer": {"type": "dense", "out": 8}, "inputs": ["code"]},
      {"name": "two", "layer": {"type": "dense", "out": 2}, "inputs": ["code"]}]},
    "loss": {"same": {"type": "mse", "target": "x"}, "two": {"type": "mse", "target": "z", "weight": )" +
         weight + "}}";
}

std::string vae(const std::string& kl) {
  return R"("loss": "none", "network": [{"type": "vae", "latent": 2, "encoder": [{"type": "dense", "out": 6, "activation": "tanh"}],
      "decoder": [{"type": "dense", "out": 8}], "kl": )" +
         kl + "}]";
}

std::string sparse(const std::string& weight) {
  return R"("loss": "mse", "network": [{"type": "dense", "out": 6, "activation": "sigmoid"},
      {"type": "sparsity", "target": 0.1, "weight": )" +
         weight + R"(}, {"type": "dense", "out": 8}])";
}

std::string contractive(const std::string& factor) {
  return R"("loss": "mse", "network": [{"type": "dense", "out": 5, "activation": "sigmoid", "contractive": )" + factor +
         R"(}, {"type": "dense", "out": 8}])";
}

std::string machine(const std::string& weight) {
  return R"("loss": "none", "network": [{"type": "rbm", "hidden": 8, "sparsity": 0.2, "sparsity_weight": )" + weight + "}]";
}

std::string sample(const std::string& kl) {
  return R"("loss": "mse", "network": [{"type": "dense", "out": 6}, {"type": "gaussian_sample", "kl": )" + kl +
         R"(}, {"type": "dense", "out": 8}])";
}

using Text = std::string (*)(const std::string&);
constexpr Text kTexts[] = {heads, vae, sparse, contractive, machine, sample};

// 0, then 0.25 more in each step, up to 1; and one by epochs.
constexpr const char* kRamp = R"({"type": "ramp", "schedule": 1, "length": 4, "by": "step"})";
constexpr const char* kLinear = R"({"type": "linear", "from": 0.75, "to": 0.25})";

std::vector<double> numbers_of(const Trainer& trainer) {
  const auto& params = trainer.model().params();
  std::vector<double> numbers(params.block_bytes() / sizeof(double));
  std::memcpy(numbers.data(), params.block(), params.block_bytes());
  return numbers;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-11) << what << ", number " << i;
}

void continue_from(const Trainer& from, Trainer* to) {
  std::memcpy(to->model().params().block(), from.model().params().block(), from.model().params().block_bytes());
  for (size_t i = 0; i < from.optimizer_slots(); ++i) {
    const auto slot = from.optimizer_slot(i);
    std::copy(slot.begin(), slot.end(), to->optimizer_slot(i).begin());
  }
  to->set_position(from.position());
}

TEST(LossFactors, EachStepIsThatOfTheNumberThatTheScheduleHas) {
  for (const Text text : kTexts)
    for (const char* schedule : {kRamp, kLinear}) {
      const Schedule weight(Json::parse(schedule, "schedule"), "schedule");
      Trainer scheduled(job_of(text(schedule)), {.threads = 1, .measure = false});
      for (int step = 0; step < kSteps; ++step) {
        const double now = weight.at(scheduled.step_progress());
        const std::string what = text(Json(now).dump()) + ", step " + std::to_string(step);
        Trainer fixed(job_of(text(Json(now).dump())), {.threads = 1, .measure = false});
        continue_from(scheduled, &fixed);
        const Batch batch = scheduled.next_batch();
        const StepReport a = scheduled.step(batch), b = fixed.step(batch);
        EXPECT_NEAR(a.loss, b.loss, 1e-12) << what;
        expect_near(numbers_of(scheduled), numbers_of(fixed), what);
      }
      if (schedule == kRamp) {
        EXPECT_EQ(weight.at(scheduled.step_progress()), 1);
      }
    }
}

std::vector<double> train(const Job& job, const TrainerOptions& options) {
  Trainer trainer(job, options);
  for (int i = 0; i < kSteps; ++i) trainer.step();
  return numbers_of(trainer);
}

TEST(LossFactors, AreTheSameForThreadsSubBatchesPartsAndTheReference) {
  for (const Text text : kTexts) {
    SCOPED_TRACE(text(kRamp));
    const std::vector<double> one = train(job_of(text(kRamp)), {.threads = 1, .measure = false});
    expect_near(train(job_of(text(kRamp)), {.threads = 3, .measure = false}), one, "threads");
    expect_near(train(job_of(text(kRamp)), {.threads = 1, .sub_batch = 5, .measure = false}), one, "sub-batches");
    expect_near(train(job_of(text(kRamp)), {.threads = 1, .backend = Backend::ref, .measure = false}), one, "reference");
    if (text == sparse || text == machine) continue;  // the means of a batch are those of its parts
    expect_near(train(job_of(text(kRamp), R"(, "accumulate": 3)", 8), {.threads = 1, .measure = false}), one, "parts");
  }
}

// The step says where a schedule stands, so that a run which goes on takes the same ones.
TEST(LossFactors, GoOnWhereARunStopped) {
  for (const Text text : kTexts) {
    const Job job = job_of(text(kLinear));
    const std::vector<double> whole = train(job, {.threads = 1, .measure = false});
    Trainer first(job, {.threads = 1, .measure = false});
    for (int i = 0; i < 5; ++i) first.step();
    Trainer second(job, {.threads = 1, .measure = false});
    continue_from(first, &second);
    second.restore(first.position(), {}, second.sub_batch());
    for (int i = 5; i < kSteps; ++i) second.step();
    EXPECT_EQ(numbers_of(second), whole) << text(kLinear);
  }
}

TEST(LossFactors, WhatIsSetStandsForTheJobsUntilItIsTakenBack) {
  for (const Text text : kTexts) {
    Trainer changed(job_of(text(kRamp)), {.threads = 1, .measure = false});
    ASSERT_EQ(changed.model().factors().size(), 1u);
    const std::string option = option_of_factor(changed.model().factors()[0]);
    EXPECT_NO_THROW(settings_of(changed.job(), Json::object()).resolve(option)) << "as a cluster finds it, without a model";
    const std::string given[] = {"", "0.4", kLinear, "null"};
    for (int step = 0; step < 4; ++step) {
      const Json value = Json::parse(given[step].empty() ? "null" : given[step], "value");
      if (!given[step].empty()) changed.change_factors(Json(Json::Object{{option, value}}));
      const Schedule weight(value.is_null() ? Json::parse(kRamp, "schedule") : value, "schedule");
      const double now = weight.at(changed.step_progress());
      const std::string what = text(Json(now).dump()) + ", step " + std::to_string(step);
      Trainer fixed(job_of(text(Json(now).dump())), {.threads = 1, .measure = false});
      continue_from(changed, &fixed);
      const Batch batch = changed.next_batch();
      EXPECT_NEAR(changed.step(batch).loss, fixed.step(batch).loss, 1e-12) << what;
      expect_near(numbers_of(changed), numbers_of(fixed), what);
    }
    EXPECT_THROW(changed.change_factors(Json(Json::Object{{option, Json("fast")}})), Error);
  }
}

TEST(LossFactors, EvaluationsTakeTheEndOfASchedule) {
  for (const Text text : {Text(heads), Text(vae), Text(sample)}) {
    double losses[2];
    const std::string ends[2] = {kLinear, "0.25"};
    for (int i = 0; i < 2; ++i) {
      Trainer trainer(job_of(text(ends[i])), {.threads = 1, .measure = false});
      const Config source(*trainer.job().json().find("data")->find("train"), "job");
      Evaluator evaluator(trainer.model(), trainer.team(), open_source(source, "."), nullptr, "job");
      losses[i] = evaluator.run().find("loss")->as_number();
    }
    EXPECT_NEAR(losses[0], losses[1], 1e-12) << text(kLinear);
  }
}

TEST(LossFactors, AreOfEachObjectivesOwnUpdates) {
  const auto objectives = [](const std::string& first, const std::string& second) {
    std::string network = heads("1");
    network = network.substr(0, network.find("\"loss\""));
    return network + R"("objectives": [
        {"name": "a", "loss": {"same": {"type": "mse", "target": "x", "weight": )" +
           first + R"(}}, "updates": "same*", "optimizer": {"type": "sgd", "lr": 0.1}},
        {"name": "b", "loss": {"two": {"type": "mse", "target": "z", "weight": )" +
           second + R"(}}, "updates": "code*", "every": 2, "optimizer": {"type": "sgd", "lr": 0.1}}])";
  };
  // The second one's step counts its own updates: 0, 0.5 and then 1, in steps 0, 2 and 4.
  constexpr const char* kHalf = R"({"type": "ramp", "schedule": 1, "length": 2, "by": "step"})";
  Trainer scheduled(job_of(objectives(kRamp, kHalf), R"(, "optimizer": null)"), {.threads = 1, .measure = false});
  for (int step = 0; step < 6; ++step) {
    const double a = std::min(1.0, 0.25 * step), b = std::min(1.0, 0.5 * (step / 2));
    Trainer fixed(job_of(objectives(Json(a).dump(), Json(b).dump()), R"(, "optimizer": null)"), {.threads = 1, .measure = false});
    continue_from(scheduled, &fixed);
    const Batch batch = scheduled.next_batch();
    const StepReport got = scheduled.step(batch), want = fixed.step(batch);
    if (step % 2 == 0) {
      EXPECT_NEAR(got.objectives[1].loss, want.objectives[1].loss, 1e-12) << step;
    }
    EXPECT_NEAR(got.loss, want.loss, 1e-12) << step;
    expect_near(numbers_of(scheduled), numbers_of(fixed), "step " + std::to_string(step));
  }
}

// A search along lines takes the value where the last one ended only where each step is of the same function.
TEST(LossFactors, MakeAnotherFunctionOfEachStep) {
  const std::string rule = R"(, "optimizer": {"type": "lbfgs"})";
  EXPECT_TRUE(Trainer(job_of(heads("0.5"), rule, kExamples), {.threads = 1, .measure = false}).lines()->is_whole(kExamples));
  EXPECT_FALSE(Trainer(job_of(heads(kRamp), rule, kExamples), {.threads = 1, .measure = false}).lines()->is_whole(kExamples));
}

TEST(LossFactors, BelowZeroCountAsZero) {
  const std::string falls = R"({"type": "linear", "from": 0, "to": -1})";
  expect_near(train(job_of(heads(falls)), {.threads = 1, .measure = false}), train(job_of(heads("0")), {.threads = 1, .measure = false}),
              "weight 0");
}

std::string refused(const std::string& text) {
  try {
    Trainer(job_of(text), {.threads = 1, .measure = false});
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(LossFactors, SayWhereAScheduleIsWrong) {
  EXPECT_NE(refused(heads(R"({"type": "lineer", "from": 0})")).find("loss.two: weight"), std::string::npos);
  EXPECT_NE(refused(heads(R"({"type": "lineer", "from": 0})")).find("linear"), std::string::npos);
  EXPECT_NE(refused(vae(R"({"type": "ramp", "schedul": 1})")).find("kl"), std::string::npos);
  EXPECT_NE(refused(vae("-1")).find("kl"), std::string::npos);
}

}  // namespace
}  // namespace perigee
