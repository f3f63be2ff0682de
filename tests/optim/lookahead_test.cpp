// Slow weights against optax's, for rules with and without states; what they go with, and what of them can change while a run trains.
#include <gtest/gtest.h>

#include <cmath>

#include "src/core/error.h"
#include "src/optim/optimizer.h"
#include "tests/core/refusal.h"
#include "tests/optim/lookahead_reference.h"

namespace perigee {
namespace {

constexpr int kElements = 7, kSteps = 12;

Json parse_lookahead(const char* text) { return Json::parse(text, "test"); }

template <class T>
void follow(const reference::LookaheadTrajectory& expected, Dtype dtype, double precision, bool restarted) {
  const OptimizerOptions options{.optimizer = parse_lookahead(expected.optimizer), .lookahead = parse_lookahead(expected.lookahead)};
  const auto make = [&] {
    return std::make_unique<Optimizer>(options, std::vector<ParamWindow>{{.name = "p", .elements = kElements, .shape = {kElements}}},
                                       "test", dtype);
  };
  std::unique_ptr<Optimizer> optimizer = make();
  ASSERT_EQ(optimizer->slots().back(), "slow");
  T p[kElements], g[kElements], states[kMaxRuleSlots + 1][kElements] = {};
  std::vector<void*> slots;
  for (size_t s = 0; s < optimizer->slots().size(); ++s) slots.push_back(states[s]);
  for (int i = 0; i < kElements; ++i) p[i] = static_cast<T>(0.3 * (i - 3));
  optimizer->initialize(slots.data());
  for (int t = 0; t < kSteps; ++t) {
    for (int i = 0; i < kElements; ++i)
      g[i] = static_cast<T>((0.5 + 0.25 * i) * (static_cast<double>(p[i]) - std::cos(i)) + 0.1 * std::sin(i + t));
    if (restarted && t == 7) optimizer = make();  // the slots are all that goes on
    optimizer->begin_step({.step = t});
    optimizer->update({0, 3}, p, g, slots.data());
    optimizer->update({3, kElements}, p, g, slots.data());
  }
  for (size_t i = 0; i < kElements; ++i) {
    EXPECT_NEAR(p[i], expected.fast[i], precision) << expected.optimizer << ", element " << i;
    EXPECT_NEAR(states[slots.size() - 1][i], expected.slow[i], precision) << expected.optimizer << ", slow element " << i;
  }
}

TEST(Lookahead, IsOptaxs) {
  for (const reference::LookaheadTrajectory& expected : reference::kLookaheads)
    for (const bool restarted : {false, true}) {
      follow<double>(expected, Dtype::f64, 1e-12, restarted);
      follow<float>(expected, Dtype::f32, 2e-6, restarted);
    }
}

TEST(Lookahead, IsForRulesThatGoByGradients) {
  const std::vector<ParamWindow> windows = {{.name = "p", .elements = 4, .shape = {4}}};
  const auto refused = [&](const OptimizerOptions& options) {
    return refusal(ErrorKind::model, [&] { Optimizer(options, windows, "job.json"); });
  };
  EXPECT_HAS(refused({.optimizer = "lbfgs", .lookahead = Json::object()}),
             "job.json: lookahead: takes steps back, which a line search has chosen by the loss; got optimizer 'lbfgs'");
  EXPECT_NE(refused({.optimizer = "sgd", .lookahead = parse_lookahead(R"({"evry": 5})")}).find("every"), std::string::npos);
  EXPECT_NE(refused({.optimizer = "sgd", .lookahead = parse_lookahead(R"({"share": 2})")}).find("share"), std::string::npos);
  Optimizer optimizer({.optimizer = "sgd", .lookahead = Json::object()}, windows, "job.json");
  optimizer.change({.optimizer = "sgd", .lookahead = parse_lookahead(R"({"every": 2})")}, "job.json");
  EXPECT_HAS(refusal(ErrorKind::model, [&] { optimizer.change({.optimizer = "sgd"}, "job.json"); }),
             "job.json: lookahead: keeps slow weights from the run's first step on, or none; only its numbers can change");
}

}  // namespace
}  // namespace perigee
