#include "src/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "src/core/error.h"
#include "src/graph/plan.h"
#include "tests/core/refusal.h"
#include "tests/optim/reference_values.h"

namespace perigee {
namespace {

Json parse(const char* text) { return Json::parse(text, "test"); }

// Two layers of odd sizes with gaps between their tensors.
std::vector<ParamWindow> windows() {
  return {{.name = "a.weight", .offset = 0, .elements = 5001, .shape = {3, 1667}},
          {.name = "a.bias", .offset = 5008, .elements = 3, .shape = {3}, .role = ParamRole::bias},
          {.name = "b.weight", .offset = 5024, .elements = 9000, .shape = {9, 10, 100}, .lr_scale = 0.5},
          {.name = "b.frozen", .offset = 14032, .elements = 40, .shape = {40}, .trainable = false}};
}
constexpr int64_t kBlock = 14080;

// A block of parameters with its states, and gradients that depend on the step alone.
struct Model {
  explicit Model(const Optimizer& optimizer) : parameters(kBlock), gradient(kBlock) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (const ParamWindow& window : windows())
      for (int64_t i = 0; i < window.elements; ++i) parameters[size_t(window.offset + i)] = normal(random);
    for (size_t s = 0; s < optimizer.slots().size(); ++s) states.emplace_back(kBlock);
    for (auto& state : states) pointers.push_back(state.data());
    optimizer.initialize(pointers.data());
  }
  void step(Optimizer& optimizer, int t, int threads) {
    std::mt19937 random(100 + static_cast<unsigned>(t));
    std::normal_distribution<float> normal;
    for (float& g : gradient) g = normal(random);
    optimizer.begin_step({.progress = t / 10.0, .epoch = t / 2.0, .step = t}, 0.25);
    for (int k = 0; k < threads; ++k) optimizer.measure(optimizer.range(k, threads), gradient.data());
    optimizer.finish_norms();
    for (int k = 0; k < threads; ++k) optimizer.update(optimizer.range(k, threads), parameters.data(), gradient.data(), pointers.data());
    for (int k = 0; k < threads; ++k) optimizer.constrain(k, threads, parameters.data());
  }
  double norm(int64_t begin, int64_t count, int64_t stride = 1) const {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += std::pow(parameters[size_t(begin + i * stride)], 2);
    return std::sqrt(sum);
  }
  std::vector<float> parameters, gradient;
  std::vector<std::vector<float>> states;
  std::vector<void*> pointers;
};

std::vector<float> trained_flat(const OptimizerOptions& options, int threads, Isa isa) {
  Optimizer optimizer(options, windows(), "test", isa);
  Model model(optimizer);
  for (int t = 0; t < 4; ++t) model.step(optimizer, t, threads);
  for (const auto& state : model.states) model.parameters.insert(model.parameters.end(), state.begin(), state.end());
  return model.parameters;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

OptimizerOptions everything(const Json& rule) {
  return {.optimizer = rule,
          .regularization = parse(R"({"l1": 0.001, "l2": 0.01, "weight_decay": 0.02, "l2_bias": 0.03})"),
          .clip = parse(R"({"type": "norm", "threshold": 5})"),
          .constraint = parse(R"([{"type": "max_norm", "max": 30}, {"type": "non_negative", "on": "bias"}])")};
}

TEST(Optimizer, EveryRuleReadsItsExampleAndMovesOnlyWhatIsTrainable) {
  ASSERT_GE(all_optimizers().size(), 12u);
  for (const OptimizerDef* def : all_optimizers()) {
    if (def->minimizes) continue;  // minimizer_test.cpp
    SCOPED_TRACE(def->name);
    const Json example = Json::parse(def->example, def->name);
    EXPECT_EQ(example.find("type")->as_string(), def->name);
    Optimizer optimizer({.optimizer = example}, windows(), "test");
    Model model(optimizer);
    const std::vector<float> before = model.parameters;
    model.step(optimizer, 0, 1);
    for (const ParamWindow& window : windows()) {
      const bool moved =
          std::memcmp(&before[size_t(window.offset)], &model.parameters[size_t(window.offset)], size_t(window.elements) * 4) != 0;
      EXPECT_EQ(moved, window.trainable && std::string(def->name) != "noop") << window.name;
    }
    for (int64_t gap : {5001, 5007, 5011, 5023, 14024}) EXPECT_EQ(model.parameters[size_t(gap)], 0.0f) << "gap at " << gap;
    Json wrong = example;
    wrong.set("learning_rte", 0.1);
    EXPECT_THROW(Optimizer({.optimizer = wrong}, windows(), "test"), Error);
  }
}

TEST(Optimizer, TrajectoriesAreThoseOfPyTorch) {
  for (const reference::Trajectory& trajectory : reference::kTrajectories) {
    SCOPED_TRACE(trajectory.optimizer);
    constexpr int n = reference::kElements;
    Optimizer optimizer({.optimizer = parse(trajectory.optimizer)}, {{.name = "p", .offset = 0, .elements = n, .shape = {n}}}, "test");
    float p[n], g[n], states[kMaxRuleSlots][n] = {};
    void* slots[kMaxRuleSlots] = {states[0], states[1], states[2]};
    for (int i = 0; i < n; ++i) p[i] = 0.3f * static_cast<float>(i - 3);
    optimizer.initialize(slots);
    for (int t = 0; t < reference::kSteps; ++t) {
      for (int i = 0; i < n; ++i) g[i] = static_cast<float>((0.5 + 0.25 * i) * (p[i] - std::cos(i)) + 0.1 * std::sin(i + t));
      optimizer.begin_step({.step = t});
      optimizer.update({0, n}, p, g, slots);
    }
    for (int i = 0; i < n; ++i) EXPECT_NEAR(p[i], trajectory.end[size_t(i)], 2e-6) << "element " << i;
  }
}

TEST(Optimizer, EveryRuleHasATrajectory) {
  for (const OptimizerDef* def : all_optimizers()) {
    if (def->minimizes) continue;
    const std::string type = std::string("{\"type\": \"") + def->name + "\"";
    bool found = false;
    for (const auto& trajectory : reference::kTrajectories) found = found || std::string(trajectory.optimizer).starts_with(type);
    EXPECT_TRUE(found) << def->name << " has no reference trajectory: add one to tests/optim/reference.py";
  }
}

TEST(Optimizer, BitsDoNotDependOnThreadsOrInstructionSet) {
  for (const OptimizerDef* def : all_optimizers()) {
    if (def->minimizes) continue;
    SCOPED_TRACE(def->name);
    for (const bool plain : {true, false}) {
      const Json rule = Json::parse(def->example, def->name);
      const OptimizerOptions options = plain ? OptimizerOptions{.optimizer = rule} : everything(rule);
      const std::vector<float> expected = trained_flat(options, 1, Isa::baseline);
      for (int threads : {2, 3, 7})
        EXPECT_TRUE(same_bits(trained_flat(options, threads, Isa::baseline), expected)) << threads << " threads";
      for (Isa isa : {Isa::avx2, Isa::avx512})
        EXPECT_TRUE(isa > host_isa() || same_bits(trained_flat(options, 2, isa), expected)) << isa_name(isa);
    }
  }
}

TEST(Optimizer, RangesAreEvenAndCoverTheBlock) {
  const Optimizer optimizer({.optimizer = "sgd"}, windows(), "test");
  for (int parts : {1, 2, 3, 5, 16}) {
    int64_t at = 0;
    for (int part = 0; part < parts; ++part) {
      const Optimizer::Range range = optimizer.range(part, parts);
      EXPECT_EQ(range.begin, at);
      EXPECT_LE(range.begin, range.end);
      EXPECT_LE(range.end - range.begin, kBlock / parts + 4096);
      at = range.end;
    }
    EXPECT_EQ(at, 14072);
  }
}

TEST(Optimizer, LearningRateFollowsScheduleAndScale) {
  Optimizer optimizer({.optimizer = parse(R"({"type": "sgd", "lr": {"type": "linear", "from": 1, "to": 0}})")}, windows(), "test");
  Model model(optimizer);
  const std::vector<float> before = model.parameters;
  model.step(optimizer, 5, 1);  // progress 0.5, gradient scale 0.25
  EXPECT_DOUBLE_EQ(optimizer.learning_rate(), 0.5);
  EXPECT_FLOAT_EQ(model.parameters[10], before[10] - 0.5f * 0.25f * model.gradient[10]);
  EXPECT_FLOAT_EQ(model.parameters[6000], before[6000] - 0.25f * 0.25f * model.gradient[6000]);
}

TEST(Optimizer, ListsEveryOptionThatItReads) {
  for (const OptimizerDef* def : all_optimizers()) {
    if (def->minimizes || def->programmed) continue;
    SCOPED_TRACE(def->name);
    Json all = Json::object();
    all.set("type", def->name);
    for (const Option* option : def->schema.all()) all.set(option->name, option->type == "boolean" ? Json(true) : Json(0.5));
    EXPECT_NO_THROW(Optimizer({.optimizer = all}, windows(), "test"));
  }
}

TEST(Optimizer, BiasesMayHaveTheirOwnRate) {
  Optimizer optimizer({.optimizer = parse(R"({"type": "sgd", "lr": 0.5, "bias_lr": {"type": "linear", "from": 4}})")}, windows(), "test");
  Model model(optimizer);
  const std::vector<float> before = model.parameters;
  model.step(optimizer, 5, 1);
  EXPECT_FLOAT_EQ(model.parameters[10], before[10] - 0.5f * 0.25f * model.gradient[10]);
  EXPECT_FLOAT_EQ(model.parameters[5009], before[5009] - 2.0f * 0.25f * model.gradient[5009]);
}

TEST(Optimizer, RegularisesWeightsAndBiasesApart) {
  const Json regularization = parse(R"({"l1": 0.5, "l2": 2, "weight_decay": 0.25, "l2_bias": 4})");
  Optimizer optimizer({.optimizer = parse(R"({"type": "sgd", "lr": 0.1})"), .regularization = regularization}, windows(), "test");
  Model model(optimizer);
  const std::vector<float> p = model.parameters;
  model.step(optimizer, 0, 1);
  const auto g = [&](size_t i) { return 0.25 * model.gradient[i]; };
  int negative = 0;
  for (size_t i = 0; i < 20; ++i) {
    negative += p[i] < 0;
    EXPECT_NEAR(model.parameters[i], p[i] - 0.1 * (g(i) + 2 * p[i] + std::copysign(0.5, p[i])) - 0.1 * 0.25 * p[i], 1e-5) << i;
  }
  EXPECT_TRUE(negative > 0 && negative < 20);
  EXPECT_NEAR(model.parameters[5008], p[5008] - 0.1 * (g(5008) + 4 * p[5008]), 1e-5);
  double square = 0, size = 0;
  for (const ParamWindow& window : windows())
    for (int64_t i = window.offset; i < window.offset + window.elements; ++i)
      if (window.role == ParamRole::weight && window.trainable) {
        square += double(p[size_t(i)]) * p[size_t(i)];
        size += std::fabs(p[size_t(i)]);
      }
  double bias = 0;
  for (size_t i = 5008; i < 5011; ++i) bias += double(p[i]) * p[i];
  EXPECT_NEAR(optimizer.penalty({}, p.data()), size * 0.5 + square + 2 * bias, 1e-3);
}

// The L2 norm that the gradient of [begin, begin + count) had in the update: sgd with lr 1 shows it.
double applied_norm(const char* clip, int64_t begin, int64_t count) {
  Optimizer optimizer({.optimizer = parse(R"({"type": "sgd", "lr": 1})"), .clip = parse(clip)}, windows(), "test");
  Model model(optimizer);
  std::vector<float> before = model.parameters;
  model.step(optimizer, 0, 2);
  double sum = 0;
  for (int64_t i = begin; i < begin + count; ++i) sum += std::pow(double(before[size_t(i)]) - model.parameters[size_t(i)], 2);
  return std::sqrt(sum);
}

TEST(Optimizer, ClipsByNormOfAllLayerOrTensor) {
  EXPECT_NEAR(applied_norm(R"({"type": "layer_norm", "threshold": 2})", 0, 5011), 2, 1e-3);
  EXPECT_NEAR(applied_norm(R"({"type": "parameter_norm", "threshold": 2})", 0, 5001), 2, 1e-3);
  EXPECT_LT(applied_norm(R"({"type": "parameter_norm", "threshold": 2})", 5008, 3), 1.99);  // was short enough
  EXPECT_NEAR(applied_norm(R"({"type": "renormalize_parameter"})", 5008, 3), 1, 1e-3);
  EXPECT_NEAR(applied_norm(R"({"type": "renormalize_layer"})", 0, 5011), 1, 1e-3);
  const double a = applied_norm(R"({"type": "norm", "threshold": 3})", 0, 5011);
  const double b = 2 * applied_norm(R"({"type": "norm", "threshold": 3})", 5024, 9000);  // its lr_scale is 0.5
  EXPECT_NEAR(std::sqrt(a * a + b * b), 3, 1e-3);
}

TEST(Optimizer, ClipsElements) {
  Optimizer optimizer({.optimizer = parse(R"({"type": "sgd", "lr": 1})"), .clip = parse(R"({"type": "value", "threshold": 0.1})")},
                      windows(), "test");
  EXPECT_TRUE(optimizer.local());
  Model model(optimizer);
  const std::vector<float> before = model.parameters;
  model.step(optimizer, 0, 1);
  float largest = 0;
  for (size_t i = 0; i < 5001; ++i) largest = std::max(largest, std::fabs(before[i] - model.parameters[i]));
  EXPECT_NEAR(largest, 0.1f, 1e-6);
}

TEST(Optimizer, ConstrainsVectorsOfWeights) {
  const auto constrained = [](const char* constraint) {
    Optimizer optimizer({.optimizer = parse(R"({"type": "sgd", "lr": 0.1})"), .constraint = parse(constraint)}, windows(), "test");
    Model model(optimizer);
    model.step(optimizer, 0, 2);
    return model;
  };
  for (int row = 0; row < 3; ++row) EXPECT_NEAR(constrained(R"({"type": "unit_norm"})").norm(row * 1667, 1667), 1, 1e-4);
  EXPECT_NEAR(constrained(R"({"type": "max_norm", "max": 0.5, "dims": [0]})").norm(5, 3, 1667), 0.5, 1e-4);
  EXPECT_NEAR(constrained(R"({"type": "min_max_norm", "min": 60, "max": 70})").norm(0, 1667), 60, 1e-2);
  const Model positive = constrained(R"({"type": "non_negative", "on": "all"})");
  for (size_t i = 0; i < 14024; ++i) ASSERT_GE(positive.parameters[i], 0.0f);
  EXPECT_THROW(constrained(R"({"type": "max_norm", "dims": [2]})"), Error);
}

TEST(Optimizer, WindowsMayOverrideTheJob) {
  auto own = windows();
  own[0].constraint = parse(R"({"type": "unit_norm"})");
  own[2].regularization = parse("{}");
  Optimizer optimizer(
      {.optimizer = parse(R"({"type": "sgd", "lr": 0})"), .regularization = parse(R"({"weight_decay": 0.5, "apply_lr": false})")}, own,
      "test");
  Model model(optimizer);
  const std::vector<float> before = model.parameters;
  model.step(optimizer, 0, 1);
  EXPECT_NEAR(model.norm(0, 1667), 1, 1e-4);
  EXPECT_EQ(model.parameters[5024], before[5024]);
}

TEST(Optimizer, SaysWhatIsWrong) {
  const auto error_of = [](OptimizerOptions options) -> std::string {
    try {
      Optimizer optimizer(options, windows(), "job.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_of({.optimizer = "adm"}).find("'adam'"), std::string::npos);
  EXPECT_NE(error_of({.optimizer = parse(R"({"type": "adam", "beta1": 1.5})")}).find("beta1"), std::string::npos);
  EXPECT_NE(error_of({.optimizer = parse(R"({"type": "adam", "lr": {"type": "cosin", "from": 1}})")}).find("'cosine'"), std::string::npos);
  EXPECT_NE(error_of({.optimizer = "sgd", .clip = parse(R"({"type": "nrm"})")}).find("'norm'"), std::string::npos);
  EXPECT_NE(error_of({.optimizer = "sgd", .regularization = parse(R"({"l3": 1})")}).find("l3"), std::string::npos);
}

TEST(Optimizer, KeepsItsRuleAndItsKindOfClipping) {
  Optimizer optimizer({.optimizer = "sgd", .clip = parse(R"({"type": "norm", "threshold": 1})")}, windows(), "job.json");
  const auto change = [&](const OptimizerOptions& options) {
    return refusal(ErrorKind::model, [&] { optimizer.change(options, "job.json"); });
  };
  EXPECT_HAS(change({.optimizer = "adam"}),
             "job.json: optimizer: another rule has other states; got adam, expected sgd; start another run with it");
  EXPECT_HAS(change({.optimizer = "sgd", .clip = parse(R"({"type": "value", "threshold": 1})")}),
             "job.json: clip: the gradient is clipped in another way than when the run began; only its threshold can change");
}

}  // namespace
}  // namespace perigee
