// Networks whose rows carry state from one batch to the next. The truth is PyTorch's, with hidden states that are detached and carried; and a
// window as long as a whole lane, which carries nothing.
#include <gtest/gtest.h>

#include <cstring>

#include "src/model/steps/carried_rows.h"
#include "src/run/checkpoint.h"
#include "tests/core/refusal.h"
#include "tests/train/lanes.h"
#include "tests/train/references/carried_reference.h"

namespace perigee {
namespace {

constexpr int64_t kWindow = 4;  // units

class CarriedState : public testing::Test {
 protected:
  CarriedState() { write_lanes(folder_); }

  // `layer`: the recurrent layer's options but for the units.
  Json job(const std::string& layer, int64_t window = kWindow, const std::string& more = "{}", bool streams = true) const {
    Json job = Json::parse(R"({"network": [{"type": "embedding", "size": 6, "out": 4, "name": "in"}, {"units": 5, )" + layer + R"(},
        {"type": "dense", "out": 6, "over": "steps", "name": "out"}], "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.05}, "epochs": 2,
        "seed": 3, "precision": "float64", "data": {"batch": 3}})",
                           "job");
    Json text = Json::parse(R"({"type": "text", "file": "text.txt", "targets": "every"})", "data");
    text.set("context", window);
    if (streams) text.set("streams", kLanes);
    else text.set("stride", window);
    job.find("data")->set("train", text);
    const Json other = Json::parse(more, "more");
    for (const auto& [key, value] : other.as_object()) job.set(key, value);
    return job;
  }
  Trainer trainer(const Json& job, int threads = 1) const { return Trainer(Job(job, "job", folder_.path()), {.threads = threads}); }

  TemporaryFolder folder_;
};

constexpr const char* kCarrying = R"("type": "lstm", "layers": 2, "state": "carry")";
constexpr const char* kAnew = R"("type": "lstm", "layers": 2)";
// Steps that change nothing one sees.
constexpr const char* kFixed = R"({"optimizer": {"type": "sgd", "lr": 1e-13}})";

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The script's numbers, number `seed` of its tensors. `columns` not 0: ours is the transpose of one with so many columns.
void fill(Trainer& trainer, const std::string& name, int64_t seed, int64_t columns = 0) {
  const int index = trainer.model().params().find(name);
  ASSERT_GE(index, 0) << name;
  Tensor tensor = trainer.model().params().parameter_tensor(index);
  const int64_t n = tensor.elements(), rows = columns > 0 ? n / columns : 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = columns > 0 ? i % columns * rows + i / columns : i;
    tensor.data<double>()[at] = static_cast<double>((7 * i + 3 * seed) % 17 - 8) / 20;
  }
}

void fill_as_the_script(Trainer& trainer, const carried_reference::Run& run) {
  const std::string layer = std::string(run.layer) + "1.";
  fill(trainer, "in.weight", 1);
  int64_t seed = 1;
  for (int l = 1; l <= run.layers; ++l) {
    const std::string number = l == 1 ? "" : "_" + std::to_string(l);
    fill(trainer, layer + "weight" + number, ++seed);
    fill(trainer, layer + "recurrent" + number, ++seed, 5);
    fill(trainer, layer + "bias" + number, ++seed);
    if (layer == "gru1.") ++seed;  // its own bias of the candidate begins with zeros in both
  }
  fill(trainer, "out.weight", ++seed);
  fill(trainer, "out.bias", ++seed);
}

TEST_F(CarriedState, TrainsAsPyTorchDoes) {
  for (const carried_reference::Run& run : carried_reference::kRuns)
    for (const int threads : {1, 2, 3}) {
      const std::string layer = std::string(R"("type": ")") + run.layer + R"(", "layers": )" + std::to_string(run.layers);
      Trainer carrying = trainer(job(layer + R"(, "state": "carry")"), threads), anew = trainer(job(layer), threads);
      fill_as_the_script(carrying, run);
      fill_as_the_script(anew, run);
      const std::vector<double> got = losses(carrying, 12), without = losses(anew, 12);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], run.losses[i], 1e-12) << run.layer << " step " << i;
      EXPECT_GT(std::abs(without[1] - run.losses[1]), 1e-5) << run.layer;
    }
}

// Options that go step by step, too.
TEST_F(CarriedState, WindowsThatCarryAreOneLongWindow) {
  for (const std::string layer : {R"("type": "lstm", "layers": 2)", R"("type": "gru")", R"("type": "rnn")",
                                  R"("type": "lstm", "peepholes": true, "projection": 3)", R"("type": "gru", "reset": "before")"}) {
    Trainer whole = trainer(job(layer, kLane, kFixed));
    const double expected = whole.step().loss;
    for (const int64_t window : {2, 6, 12}) {
      Trainer carrying = trainer(job(layer + R"(, "state": "carry")", window, kFixed)), anew = trainer(job(layer, window, kFixed));
      EXPECT_NEAR(mean(losses(carrying, kLane / window)), expected, 1e-11) << layer << window;
      EXPECT_GT(std::abs(mean(losses(anew, kLane / window)) - expected), 1e-6) << layer << window;
    }
  }
}

TEST_F(CarriedState, AnEpochBeginsAnew) {
  Trainer carrying = trainer(job(kCarrying, kWindow, kFixed));
  const std::vector<double> first = losses(carrying, 6), second = losses(carrying, 6);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(first[i], second[i], 1e-11) << i;
}

TEST_F(CarriedState, EvaluationCarriesToo) {
  Trainer whole = trainer(job(kAnew, kLane, kFixed)), carrying = trainer(job(kCarrying, 6, kFixed), 2);
  const double expected = whole.evaluate("train").find("loss")->as_number();
  carrying.step();
  const double first = carrying.evaluate("train").find("loss")->as_number();
  EXPECT_NEAR(first, expected, 1e-11);
  EXPECT_EQ(carrying.evaluate("train").find("loss")->as_number(), first) << "each begins anew";
  Trainer alone = trainer(job(kCarrying, 6, kFixed), 2);
  alone.step();
  EXPECT_EQ(carrying.step().loss, alone.step().loss) << "it has rows of its own";
}

TEST_F(CarriedState, AStepThatIsDroppedCarriesNothing) {
  Trainer dropped = trainer(job(kCarrying)), straight = trainer(job(kCarrying));
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(dropped.step().loss, straight.step().loss);
  EXPECT_EQ(dropped.step(&cancel).step, 0);
  EXPECT_EQ(dropped.step().loss, straight.step().loss);
}

// A gradient that overflows changes no parameter, and what was read stays read.
TEST_F(CarriedState, AStepWhoseGradientOverflowsCarries) {
  const auto half = [&](const std::string& scale) {
    return trainer(
        job(kCarrying, kWindow, R"({"precision": "fp16", "optimizer": {"type": "sgd", "lr": 1e-13}, "loss_scale": )" + scale + "}"));
  };
  Trainer finite = half("1"), overflowing = half("16777216");
  EXPECT_EQ(losses(overflowing, 6), losses(finite, 6));
  EXPECT_EQ(finite.loss_scale()->skipped, 0);
  EXPECT_EQ(overflowing.loss_scale()->skipped, 6);
}

TEST_F(CarriedState, AResumeInTheMiddleEndsWithTheSameBits) {
  for (const char* precision : {"float64", "float32", "bf16"}) {
    const std::string more = std::string(R"({"precision": ")") + precision + "\"}";
    const Json learning = job(kCarrying, 2, more);
    Trainer straight = trainer(learning, 2), before = trainer(learning, 2);
    losses(before, 5);
    save_checkpoint(before, folder_ / "c.safetensors", {});
    CheckpointSnapshot snapshot;
    snapshot.take(before, {});
    snapshot.write(folder_ / "snapshot.safetensors");
    losses(straight, 5);
    const std::vector<double> expected = losses(straight, 9);  // into the next epoch
    for (const char* file : {"c.safetensors", "snapshot.safetensors"}) {
      Trainer resumed = trainer(learning, 2);
      load_checkpoint(resumed, folder_ / file);
      EXPECT_EQ(losses(resumed, 9), expected) << file << " " << precision;
      const Params &ours = resumed.model().params(), &its = straight.model().params();
      EXPECT_EQ(std::memcmp(ours.block(), its.block(), its.block_bytes()), 0) << file << " " << precision;
    }
  }
  Trainer other = trainer(job(kAnew, 2));
  save_checkpoint(other, folder_ / "other.safetensors", {});
  Trainer wants = trainer(job(kCarrying, 2));
  EXPECT_HAS(refusal(ErrorKind::model, [&] { load_checkpoint(wants, folder_ / "other.safetensors"); }), "carried/lstm1.h");
}

TEST_F(CarriedState, SaysWhatIsWrong) {
  const auto of_job = [&](const Json& job) { return refusal(ErrorKind::model, [&] { trainer(job); }); };
  EXPECT_HAS(of_job(job(kCarrying, kWindow, "{}", false)), "expected streams = 3");
  EXPECT_HAS(of_job(job(R"("type": "gru", "state": "carry", "reverse": true)")), "begins at the last step");
  EXPECT_HAS(of_job(job(R"("type": "gru", "state": "carry", "bidirectional": "concat")")), "begins at the last step");
  const auto on_gpu = [&] { Trainer(Job(job(kCarrying), "job", folder_.path()), {.backend = Backend::cuda}); };
  EXPECT_HAS(refusal(ErrorKind::usage, on_gpu), "device = \"cpu\"");
}

TEST_F(CarriedState, ABatchHasEachStreamOnce) {
  Trainer carrying = trainer(job(kCarrying));
  Batch batch = carrying.next_batch();
  batch.position = 1;
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { carrying.step(batch); }), "a batch of streams has examples of two of their steps");
}

}  // namespace
}  // namespace perigee
