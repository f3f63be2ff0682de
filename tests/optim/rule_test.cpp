// Rules of one's own (the trajectories of two are in optimizer_test.cpp): how they meet what happens to gradients, and what is no rule.
#include "src/optim/rule_program.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/optim/optimizer.h"

namespace perigee {
namespace {

constexpr int kElements = 9000;

Json parse_rule(const std::string& text) { return Json::parse(text, "rule"); }

std::string descent(const std::string& more = "") {
  return R"({"type": "rule", "lr": 0.1, "program": [{"op": "mul", "in": ["lr", "gradient"], "out": "t1"}, {"op": "sub", "in": ["parameter", "t1"], "out": "t2"}],
    "outputs": {"parameter": "t2"})" +
         more + "}";
}

std::vector<float> trained_by_rule(const std::string& rule, OptimizerOptions options, int threads = 1) {
  options.optimizer = parse_rule(rule);
  std::vector<ParamWindow> windows{
      {.name = "w", .offset = 0, .elements = 5000, .shape = Shape{5000}},
      {.name = "b", .offset = 5008, .elements = 900, .shape = Shape{900}, .role = ParamRole::bias, .lr_scale = 0.5},
      {.name = "still", .offset = 6000, .elements = 3000, .shape = Shape{3000}, .trainable = false}};
  Optimizer optimizer(options, windows, "job");
  std::vector<float> p(kElements), g(kElements);
  for (int i = 0; i < kElements; ++i) p[static_cast<size_t>(i)] = std::sin(static_cast<float>(i));
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < kElements; ++i) g[static_cast<size_t>(i)] = 3 * std::cos(0.3f * static_cast<float>(i + step));
    optimizer.begin_step({.progress = 0.1 * step, .epoch = 0.2 * step, .step = step}, 0.5);
    if (optimizer.needs_norms()) optimizer.measure(optimizer.range(0, 1), g.data()), optimizer.finish_norms();
    for (int part = 0; part < threads; ++part) optimizer.update(optimizer.range(part, threads), p.data(), g.data(), nullptr);
  }
  return p;
}

TEST(Rule, SeesTheGradientThatOtherRulesSee) {
  const std::string sgd = R"({"type": "sgd", "lr": 0.1})";
  EXPECT_EQ(trained_by_rule(descent(), {}), trained_by_rule(sgd, {}));
  EXPECT_EQ(trained_by_rule(descent(), {}, 3), trained_by_rule(sgd, {}));
  for (const char* clip : {R"({"type": "value", "threshold": 0.4})", R"({"type": "norm", "threshold": 2})"})
    EXPECT_EQ(trained_by_rule(descent(), {.clip = parse_rule(clip)}), trained_by_rule(sgd, {.clip = parse_rule(clip)})) << clip;
  const Json penalties = parse_rule(R"({"l1": 0.01, "l2": 0.1, "weight_decay": 0.05, "l2_bias": 0.2})");
  const std::vector<float> own = trained_by_rule(descent(), {.regularization = penalties}),
                           theirs = trained_by_rule(sgd, {.regularization = penalties});
  for (size_t i = 0; i < own.size(); ++i) ASSERT_NEAR(own[i], theirs[i], 1e-6) << i;
}

TEST(Rule, BiasesMayHaveTheirOwnRate) {
  EXPECT_EQ(trained_by_rule(descent(R"(, "bias_lr": 0.3)"), {}), trained_by_rule(R"({"type": "sgd", "lr": 0.1, "bias_lr": 0.3})", {}));
}

// p becomes progress + 10 step + 100 t, which no element has a part in.
TEST(Rule, KnowsTheNumbersOfTheUpdate) {
  const std::vector<float> p = trained_by_rule(
      R"({"type": "rule", "program": [{"op": "mul", "in": ["step", 10], "out": "t1"}, {"op": "mul", "in": ["t", 100], "out": "t2"},
    {"op": "add", "in": ["progress", "t1"], "out": "t3"}, {"op": "add", "in": ["t3", "t2"], "out": "t4"}], "outputs": {"parameter": "t4"}})",
      {});
  EXPECT_FLOAT_EQ(p[17], 0.2f + 20 + 300);
}

TEST(Rule, StatesBeginAsTheySay) {
  Optimizer optimizer(
      {.optimizer = parse_rule(R"({"type": "rule", "state": {"a": 2.5, "b": -1}, "program": [{"op": "add", "in": ["a", "b"], "out": "t1"}],
    "outputs": {"parameter": "t1", "a": "b"}})")},
      {{.name = "w", .offset = 0, .elements = 4, .shape = Shape{4}}}, "job");
  ASSERT_EQ(optimizer.slots(), (std::vector<std::string>{"a", "b"}));
  float p[4] = {}, g[4] = {}, a[4] = {}, b[4] = {};
  void* slots[] = {a, b};
  optimizer.initialize(slots);
  EXPECT_EQ(a[3], 2.5f);
  optimizer.begin_step({});
  optimizer.update({0, 4}, p, g, slots);
  EXPECT_EQ(p[3], 1.5f);
  EXPECT_EQ(a[3], -1);
  EXPECT_EQ(b[3], -1);
}

std::string rule_refusal(const std::string& rule) {
  try {
    Optimizer({.optimizer = parse_rule(rule)}, {{.name = "w", .offset = 0, .elements = 4, .shape = Shape{4}}}, "job");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string with(const std::string& op, const std::string& outputs = R"({"parameter": "t1"})", const std::string& state = "{}") {
  return R"({"type": "rule", "state": )" + state + R"(, "program": [)" + op + R"(], "outputs": )" + outputs + "}";
}

TEST(Rule, SaysWhatIsWrong) {
  const std::pair<std::string, const char*> cases[] = {
      {with(R"({"op": "exp", "in": ["gradient"], "out": "t1"})"),
       "as in beta ^ now.t; every machine must compute the same bits of a parameter"},
      {with(R"({"op": "matmul", "in": ["gradient", "gradient"], "out": "t1"})"),
       "cannot be used in a rule; got 'matmul', expected arithmetic, sqrt, comparisons, where"},
      {with(R"({"op": "sub", "in": ["parametre", "gradient"], "out": "t1"})"),
       "there is no value 'parametre' at this point of the rule; did you mean 'parameter'?"},
      {with(R"({"op": "sub", "in": ["parameter"], "out": "t1"})"), "does not fit the op"},
      {R"({"type": "rule", "program": {}, "outputs": {"parameter": "parameter"}})", "expected a list of ops"},
      {with(R"({"op": "sub", "in": [], "out": "t1"})"), "expected a list of names or numbers"},
      {with(R"({"op": "sub", "in": ["parameter", 1e40], "out": "t1"})"),
       "'in' is out of range; got 1e+40, expected a number from -1e30 to 1e30"},
      {with(R"({"op": "sub", "in": ["parameter", 1], "out": "gradient"})"), "names a value for the second time"},
      {with(R"({"op": "sub", "in": ["parameter", 1], "out": "t1"})", R"({"parameter": "t1", "m": "t1"})"), "unknown key 'm'"},
      {with("", "{}"), "parameter"},
      {with("", R"({"parameter": "parameter"})", R"({"lr": 0})"), "has a name that a rule has already"},
      {with("", R"({"parameter": "parameter"})", R"({"a b": 0})"), "has a name of other than letters, digits and _"},
      {with("", R"({"parameter": "parameter"})", R"({"a": 0, "b": 0, "c": 0, "d": 0})"), "has too many names"},
      {with("", R"({"parameter": "parameter"})", R"({"a": "x"})"),
       "begins with no number; got a = \"x\", expected a number from -1e30 to 1e30"},
  };
  for (const auto& [rule, text] : cases) EXPECT_NE(rule_refusal(rule).find(text), std::string::npos) << rule << ": " << rule_refusal(rule);
  std::string ops, name = "parameter";
  for (int i = 1; i <= 45; ++i) {
    ops += std::string(i > 1 ? "," : "") + R"({"op": "sub", "in": [")" + name + R"(", "gradient"], "out": "t)" + std::to_string(i) + "\"}";
    name = "t" + std::to_string(i);
  }
  EXPECT_NE(rule_refusal(with(ops, R"({"parameter": "t45"})")).find("needs too many ops on the parameters"), std::string::npos);
  std::string numbers;
  for (int i = 1; i <= 500; ++i)
    numbers += std::string(i > 1 ? "," : "") + R"({"op": "add", "in": [)" + std::to_string(i) + ".5, " + std::to_string(i) +
               R"(], "out": "t)" + std::to_string(i) + "\"}";
  EXPECT_NE(rule_refusal(with(numbers)).find("is one number too many"), std::string::npos) << rule_refusal(with(numbers));
}

}  // namespace
}  // namespace perigee
