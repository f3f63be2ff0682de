// Objectives that take turns: a small GAN against the same program in PyTorch, and what a run of one keeps and refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "cluster/launch/cluster_job.h"
#include "src/job/job_parts.h"
#include "src/model/model_reader.h"
#include "src/run/session.h"
#include "tests/io/temporary.h"
#include "tests/train/parts/objectives_reference.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNetwork = R"("network": {"type": "graph", "inputs": ["x", "z"], "outputs": ["real", "fake"], "nodes": [
    {"name": "maker1", "layer": {"type": "dense", "out": 5, "activation": "tanh"}, "inputs": ["z"]},
    {"name": "maker2", "layer": {"type": "dense", "out": 4}, "inputs": ["maker1"]},
    {"name": "seen", "layer": {"type": "dense", "out": 6, "activation": "tanh", "share": "judge1"}, "inputs": ["x"]},
    {"name": "real", "layer": {"type": "dense", "out": 1, "share": "judge2"}, "inputs": ["seen"]},
    {"name": "seen2", "layer": {"type": "dense", "out": 6, "activation": "tanh", "share": "judge1"}, "inputs": ["maker2"]},
    {"name": "fake", "layer": {"type": "dense", "out": 1, "share": "judge2"}, "inputs": ["seen2"]}]},
  "inputs": ["x", "z"], "precision": "float64", "seed": 3, "name": "gan")";

constexpr const char* kObjectives = R"("objectives": [
    {"name": "judge", "loss": {"real": {"type": "binary_cross_entropy", "target": "ones"}, "fake": {"type": "binary_cross_entropy", "target": "zeros"}},
     "updates": "judge*", "optimizer": {"type": "adam", "lr": 0.02, "beta1": 0.5, "beta2": 0.999, "epsilon": 1e-8}},
    {"name": "maker", "loss": {"fake": {"type": "binary_cross_entropy", "target": "ones"}}, "updates": "maker*", "every": 2,
     "optimizer": {"type": "sgd", "lr": 0.3, "momentum": 0.9}, "clip": {"type": "norm", "threshold": 0.05}}])";

std::string array_of(int rows, int columns, double (*value)(int)) {
  std::string text;
  for (int row = 0; row < rows; ++row) {
    text += row ? ",[" : "[";
    for (int column = 0; column < columns; ++column) text += (column ? "," : "") + Json(value(row * columns + column)).dump();
    text += "]";
  }
  return "[" + text + "]";
}

std::string data() {
  const auto one = [](int) { return 1.0; };
  const auto zero = [](int) { return 0.0; };
  return R"("data": {"shuffle": false, "batch": 6, "train": {"type": "arrays", "x": )" +
         array_of(reference::kGanBatch, 4, [](int i) { return std::cos(0.9 * i); }) + R"(, "z": )" +
         array_of(reference::kGanBatch, 3, [](int i) { return std::cos(0.9 * i + 1); }) + R"(, "ones": )" +
         array_of(reference::kGanBatch, 1, one) + R"(, "zeros": )" + array_of(reference::kGanBatch, 1, zero) + "}}";
}

Job gan(const std::string& objectives = kObjectives, const std::string& more = "") {
  return Job(Json::parse("{" + std::string(kNetwork) + ", " + objectives + ", " + data() + R"(, "epochs": 5)" + more + "}", "job"), "job");
}

void begin(Trainer& trainer) {
  constexpr const char* kTensors[] = {"maker1.weight", "maker1.bias", "maker2.weight", "maker2.bias",
                                      "judge1.weight", "judge1.bias", "judge2.weight", "judge2.bias"};
  Params& params = trainer.model().params();
  for (int t = 0; t < 8; ++t) {
    const int found = params.find(kTensors[t]);
    ASSERT_GE(found, 0) << kTensors[t];
    auto* to = reinterpret_cast<double*>(params.parameter(found));
    for (int64_t i = 0; i < params.specs()[static_cast<size_t>(found)].shape.elements(); ++i)
      to[i] = 0.4 * std::sin(0.7 * static_cast<double>(i) + 1.3 * t + 0.5);
  }
}

TEST(Objectives, TakeTheStepsOfTheSameProgramInPyTorch) {
  for (const int threads : {1, 2}) {
    Trainer trainer(gan(), {.threads = threads, .measure = false});
    begin(trainer);
    size_t loss = 0;
    for (int step = 0; step < reference::kGanSteps; ++step) {
      const StepReport report = trainer.step();
      ASSERT_EQ(report.objectives.size(), 2u);
      EXPECT_NEAR(report.loss, reference::kGanLosses[loss], 1e-7) << step;
      EXPECT_NEAR(report.objectives[0].loss, reference::kGanLosses[loss++], 1e-7) << step;
      if (step % 2 == 0) ++loss;
      EXPECT_NEAR(report.objectives[1].loss, reference::kGanLosses[step % 2 == 0 ? loss - 1 : loss - 2], 1e-7) << step;
    }
    const double* want = reference::kGanParameters;
    for (const char* name :
         {"maker1.weight", "maker1.bias", "maker2.weight", "maker2.bias", "judge1.weight", "judge1.bias", "judge2.weight", "judge2.bias"}) {
      const Params& params = std::as_const(trainer).model().params();
      const int found = params.find(name);
      const Tensor now = params.parameter_tensor(found);
      for (int64_t i = 0; i < now.elements(); ++i) EXPECT_NEAR(now.data<double>()[i], *want++, 1e-7) << name << " " << i;
    }
  }
}

// Second derivatives: the gradient penalty of WGAN-GP.
constexpr const char* kWgan = R"({"network": {"type": "graph", "inputs": ["x", "z", "e"], "outputs": ["real", "fake", "penalty"], "nodes": [
    {"name": "maker1", "layer": {"type": "dense", "out": 5, "activation": "tanh"}, "inputs": ["z"]},
    {"name": "maker2", "layer": {"type": "dense", "out": 4}, "inputs": ["maker1"]},
    {"name": "seen", "layer": {"type": "dense", "out": 6, "activation": "tanh", "share": "judge1"}, "inputs": ["x"]},
    {"name": "real", "layer": {"type": "dense", "out": 1, "share": "judge2"}, "inputs": ["seen"]},
    {"name": "seen2", "layer": {"type": "dense", "out": 6, "activation": "tanh", "share": "judge1"}, "inputs": ["maker2"]},
    {"name": "fake", "layer": {"type": "dense", "out": 1, "share": "judge2"}, "inputs": ["seen2"]},
    {"name": "between", "layer": {"type": "lambda", "inputs": ["a", "b", "e"], "outputs": ["t3"], "program": [{"op": "sub", "in": ["b", "a"], "out": "t1"},
      {"op": "mul", "in": ["e", "t1"], "out": "t2"}, {"op": "add", "in": ["a", "t2"], "out": "t3"}]}, "inputs": ["x", "maker2", "e"]},
    {"name": "seen3", "layer": {"type": "dense", "out": 6, "activation": "tanh", "share": "judge1"}, "inputs": ["between"]},
    {"name": "middle", "layer": {"type": "dense", "out": 1, "share": "judge2"}, "inputs": ["seen3"]},
    {"name": "slope", "layer": {"type": "input_gradient"}, "inputs": ["middle", "between"]},
    {"name": "penalty", "layer": {"type": "lambda", "inputs": ["g"], "outputs": ["t5"], "program": [{"op": "square", "in": ["g"], "out": "t1"},
      {"op": "reduce_sum", "in": ["t1"], "out": "t2", "attrs": {"axes": [1], "keep": true}}, {"op": "sqrt", "in": ["t2"], "out": "t3"},
      {"op": "sub", "in": ["t3", 1], "out": "t4"}, {"op": "square", "in": ["t4"], "out": "t5"}]}, "inputs": ["slope"]}]},
  "inputs": ["x", "z", "e"], "target": "ones", "precision": "float64", "optimizer": {"type": "sgd", "lr": 0.05}, "objectives": [
    {"loss": {"real": FALLS, "fake": RISES, "penalty": {"type": "lambda", "inputs": ["s", "t"], "outputs": ["t1"], "weight": 10,
      "program": [{"op": "reduce_mean", "in": ["s"], "out": "t1", "attrs": {"axes": [1], "keep": false}}]}}, "updates": "judge*"},
    {"loss": {"fake": FALLS}, "updates": "maker*"}], "epochs": 3, "data": {"shuffle": false, "batch": 6, "train": {"type": "arrays", "x": X, "z": Z, "e": E, "ones": ONES}}})";

void put(std::string* text, const std::string& name, const std::string& value) {
  for (size_t at = text->find(name); at != std::string::npos; at = text->find(name, at + value.size()))
    text->replace(at, name.size(), value);
}

TEST(Objectives, MakeTheStepsOfAWassersteinGanWithGradientPenalty) {
  std::string text = kWgan;
  const std::string mean = R"({"op": "reduce_mean", "in": ["s"], "out": "t1", "attrs": {"axes": [1], "keep": false}})";
  const std::string head = R"({"type": "lambda", "inputs": ["s", "t"], "outputs": ["t2"], "program": [)" + mean;
  put(&text, "FALLS", head + R"(, {"op": "neg", "in": ["t1"], "out": "t2"}]})");
  put(&text, "RISES", head + R"(, {"op": "mul", "in": ["t1", 1], "out": "t2"}]})");
  put(&text, "X,", array_of(6, 4, [](int i) { return std::cos(0.9 * i); }) + ",");
  put(&text, "Z,", array_of(6, 3, [](int i) { return std::cos(0.9 * i + 1); }) + ",");
  put(&text, "E,", array_of(6, 1, [](int i) { return 0.5 + 0.5 * std::cos(0.9 * i + 2); }) + ",");
  put(&text, "ONES}", array_of(6, 1, [](int) { return 1.0; }) + "}");
  for (const int threads : {1, 2}) {
    Trainer trainer(Job(Json::parse(text, "job"), "job"), {.threads = threads, .measure = false});
    begin(trainer);
    for (int step = 0; step < 3; ++step) {
      const StepReport report = trainer.step();
      for (size_t i = 0; i < 2; ++i)
        EXPECT_NEAR(report.objectives[i].loss, reference::kWganLosses[2 * static_cast<size_t>(step) + i], 1e-7) << step;
    }
    const double* want = reference::kWganParameters;
    for (const char* name :
         {"maker1.weight", "maker1.bias", "maker2.weight", "maker2.bias", "judge1.weight", "judge1.bias", "judge2.weight", "judge2.bias"}) {
      const Params& params = std::as_const(trainer).model().params();
      const Tensor now = params.parameter_tensor(params.find(name));
      for (int64_t i = 0; i < now.elements(); ++i) EXPECT_NEAR(now.data<double>()[i], *want++, 1e-7) << name << " " << i;
    }
  }
}

class ObjectivesRun : public testing::Test {
 protected:
  ObjectivesRun() {
    char name[] = "/tmp/perigee-objectives-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~ObjectivesRun() override { fs::remove_all(folder_); }

  Json run(const Job& job, const std::string& name, const std::string& resume = "") {
    SessionOptions options{.trainer = {.threads = 1, .measure = false}};
    if (resume.empty()) options.out = (folder_ / name).string();
    options.resume = resume;
    Session session(job, options);
    session.add_sink([this](const Json& event) { events_.push_back(event); });
    const std::atomic<bool> never{false};
    return session.run(never);
  }

  fs::path folder_;
  std::vector<Json> events_;
};

TEST_F(ObjectivesRun, GoesOnWithTheSameBits) {
  const std::string every = R"(, "checkpoint": {"every_epochs": 1, "keep": 9})";
  run(gan(kObjectives, every), "whole");
  run(gan(kObjectives, every), "again");
  fs::remove((folder_ / "again/checkpoints/step-000000000005.safetensors"));
  fs::remove((folder_ / "again/checkpoints/step-000000000004.safetensors"));
  fs::remove(folder_ / "again/model.safetensors");
  run(gan(kObjectives, every), "again", (folder_ / "again").string());
  const Safetensors a = read_safetensors((folder_ / "whole/checkpoints/step-000000000005.safetensors").string()),
                    b = read_safetensors((folder_ / "again/checkpoints/step-000000000005.safetensors").string());
  EXPECT_NE(a.find("optimizer/objective2/velocity/maker1.weight"), nullptr);
  for (const NamedTensor& each : a.tensors) {
    const Tensor* other = b.find(each.name);
    ASSERT_NE(other, nullptr) << each.name;
    EXPECT_EQ(std::memcmp(each.tensor.view().data, other->view().data, other->bytes()), 0) << each.name;
  }
}

TEST_F(ObjectivesRun, StepsTellTheLossOfEach) {
  run(gan(), "told");
  const Json* losses = nullptr;
  for (const Json& event : events_)
    if (*event.find("event") == Json("step")) losses = event.find("losses");
  ASSERT_NE(losses, nullptr);
  EXPECT_GT(losses->find("judge")->as_number(), 0);
  EXPECT_GT(losses->find("maker")->as_number(), 0);
}

std::string refusal(const std::string& objectives, const std::string& more = "") {
  try {
    const Trainer trainer(gan(objectives, more), {.threads = 1, .measure = false});
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// All that this run has measured, whichever objective's plan it was for.
TEST(Objectives, ACheckpointHasTheKernelsOfAllTurns) {
  const TemporaryFolder folder;
  const CacheFolder cache(folder.path());
  const std::string apart = R"("objectives": [
      {"loss": {"real": {"type": "binary_cross_entropy", "target": "ones"}}, "updates": "judge*"},
      {"loss": {"fake": {"type": "binary_cross_entropy", "target": "ones"}}, "updates": "maker*"}])";  // of layers that the first has not
  std::string text = gan(apart, R"(, "optimizer": "adam")").json().dump();
  text.replace(text.find("float64"), 7, "float32");
  const Trainer trainer(Job(Json::parse(text, "job"), "job"), {.threads = 1});
  ASSERT_GT(trainer.measured(), 0);
  EXPECT_EQ(trainer.tuning().of_run(), trainer.tuning().to_json());
}

TEST(Objectives, SayWhatIsWrong) {
  const auto with = [](const std::string& second) {
    return R"("optimizer": "adam", "objectives": [{"loss": {"fake": {"type": "mse", "target": "ones"}}, "updates": "judge*"}, )" + second +
           "]";
  };
  const std::string loss = R"("loss": {"fake": {"type": "mse", "target": "ones"}})";
  EXPECT_EQ(refusal(with("{" + loss + R"(, "updates": ["maker*"]})")), "accepted");
  EXPECT_NE(refusal(with("{" + loss + "}")).find("an objective needs 'updates'; for example { loss = \"l2\", updates = \"maker.*\" }"),
            std::string::npos);
  EXPECT_NE(
      refusal(with("{" + loss + R"(, "updates": "makers*"})")).find("updates of objective 2: has a pattern that no parameter matches"),
      std::string::npos)
      << refusal(with("{" + loss + R"(, "updates": "makers*"})"));
  EXPECT_NE(refusal(with("{" + loss + R"(, "updates": "maker*"})"), R"(, "loss": "mse")")
                .find("both say what is trained for; leave out the loss: evaluations tell that of the first objective"),
            std::string::npos);
}

TEST(Objectives, TrainOnACpuAndInClustersWithoutACodec) {
  const auto refused = [](auto make) {
    try {
      make();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const TrainerOptions options{.threads = 1, .measure = false};
  EXPECT_EQ(refused([&] { ClusterJob(gan(), options); }), "accepted");
  EXPECT_EQ(refused([&] { ClusterJob(gan(kObjectives, R"(, "averaging": {"type": "periodic", "every": 5})"), options); }), "accepted");
  EXPECT_NE(refused([&] {
              ClusterJob(gan(kObjectives, R"(, "averaging": {"type": "allreduce", "codec": "lowrank"})"), options);
            }).find("take turns in a step, and so add up gradients several times"),
            std::string::npos);
  TrainingSetup first(gan(), options);
  first.options.backend = Backend::cuda;
  EXPECT_NE(refused([&] { ObjectiveTurns(gan(), first); }).find("take turns on a CPU"), std::string::npos);
  TrainingSetup scaled(gan(), options);
  scaled.scale.emplace();
  EXPECT_NE(refused([&] { ObjectiveTurns(gan(), scaled); }).find("have no loss scale"), std::string::npos);
}

}  // namespace
}  // namespace perigee
