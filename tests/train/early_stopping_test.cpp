#include "src/run/early_stopping.h"

#include <gtest/gtest.h>

#include <cmath>

namespace perigee {
namespace {

EarlyStopping stopping(const std::string& text) {
  static std::vector<std::unique_ptr<Json>> kept;
  kept.push_back(std::make_unique<Json>(Json::parse(text, "test")));
  const Config config(*kept.back(), "job.json: early_stopping");
  EarlyStopping rules(config);
  config.reject_unread();
  return rules;
}

TEST(EarlyStopping, StopsOnlyAtNumbersThatAreNoneByDefault) {
  EarlyStopping rules;
  EXPECT_EQ(rules.after_step(1e30, 1e9), "");
  EXPECT_NE(rules.after_step(std::nan(""), 0), "");
  EXPECT_NE(rules.after_step(INFINITY, 0), "");
  for (int epoch = 1; epoch < 100; ++epoch) EXPECT_EQ(rules.after_epoch(epoch, epoch, 0), "");
}

TEST(EarlyStopping, PatienceCountsEvaluationsWithoutImprovement) {
  EarlyStopping rules = stopping(R"({"metric": "validation.loss", "patience": 2, "min_improvement": 0.1})");
  EXPECT_EQ(rules.after_epoch(1, 1.0, 0), "");
  EXPECT_TRUE(rules.improved());
  EXPECT_EQ(rules.after_epoch(2, 0.95, 0), "") << "less than min_improvement";
  EXPECT_FALSE(rules.improved());
  EXPECT_EQ(rules.after_epoch(3, 0.8, 0), "");
  EXPECT_EQ(rules.best_epoch(), 3);
  EXPECT_EQ(rules.after_epoch(4, 0.8, 0), "");
  EXPECT_NE(rules.after_epoch(5, 0.9, 0).find("has not improved for 2"), std::string::npos);
  EXPECT_EQ(rules.best_value(), 0.8);
}

TEST(EarlyStopping, KnowsWhichWayIsBetter) {
  EarlyStopping rules = stopping(R"({"metric": "test.accuracy", "best": 0.99})");
  EXPECT_FALSE(rules.lower_is_better());
  EXPECT_EQ(rules.after_epoch(1, 0.98, 0), "");
  EXPECT_EQ(rules.after_epoch(2, 0.97, 0), "");
  EXPECT_EQ(rules.best_epoch(), 1);
  EXPECT_NE(rules.after_epoch(3, 0.991, 0), "");
  EXPECT_TRUE(figure_is_error("test.rmse"));
  EXPECT_TRUE(figure_is_error("validation.label_error_rate"));
  EXPECT_TRUE(figure_is_error("validation.tokens.perplexity"));
  EXPECT_FALSE(figure_is_error("test.bleu"));
  EXPECT_FALSE(figure_is_error("test.auc"));
}

TEST(EarlyStopping, Limits) {
  EarlyStopping rules = stopping(R"({"max_epochs": 3, "max_seconds": 10, "max_loss": 5, "every_epochs": 2})");
  EXPECT_NE(rules.after_step(5.5, 0), "");
  EXPECT_NE(rules.after_step(1, 11), "");
  EXPECT_EQ(rules.after_step(1, 9), "");
  EXPECT_NE(rules.after_epoch(3, 1, 0), "");
  EXPECT_TRUE(rules.due(2));
  EXPECT_FALSE(rules.due(3));
}

TEST(EarlyStopping, ResumesWhereItWas) {
  EarlyStopping rules = stopping(R"({"patience": 2})"), resumed = stopping(R"({"patience": 2})");
  rules.after_epoch(1, 1.0, 0);
  rules.after_epoch(2, 2.0, 0);
  resumed.restore(Json::parse(rules.state().dump(), "state"));
  EXPECT_NE(resumed.after_epoch(3, 2.0, 0), "");
  EXPECT_EQ(resumed.best_epoch(), 1);
}

TEST(EarlyStopping, RefusesTypos) {
  EXPECT_THROW(stopping(R"({"patiense": 2})"), Error);
  EXPECT_THROW(stopping(R"({"metric": "loss"})"), Error);
}

}  // namespace
}  // namespace perigee
