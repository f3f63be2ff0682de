// Facts that passes take from an OpDef, against what the op computes: every op that states one, found by enumeration.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/graph/build.h"
#include "src/graph/op.h"
#include "src/graph/passes/simplify.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

const Shape kFactsShape{2, 3};

Tensor facts_tensor(std::vector<double> values) { return Tensor::from(kFactsShape, values); }

// The first result of the op on these operands, as numbers in row-major order.
std::vector<double> computed(const OpDef& op, const std::vector<Tensor>& operands, const Json& attrs = {}) {
  Graph graph;
  std::vector<Value> inputs;
  std::map<std::string, Tensor> leaves;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    leaves[name] = operands[i];
    inputs.push_back(graph.input(name, {operands[i].dtype(), operands[i].shape()}));
  }
  const Value result = graph.apply(op.name, inputs, attrs);
  Interpreter interpreter(graph);
  interpreter.run(leaves);
  const Tensor numbers = interpreter[result].to(Dtype::f64);
  const auto* first = numbers.view().as<double>();
  return {first, first + numbers.shape().elements()};
}

const std::vector<double> kA = {1, -2, 3, -4, 5, -6}, kB = {8, 7, -16, 2, -4, 1};

TEST(OpFacts, TermsAreTheFactorsOfASum) {
  int found = 0;
  for (const OpDef* op : all_ops()) {
    if (op->terms == Terms()) continue;
    ++found;
    std::vector<Tensor> operands{facts_tensor(kA)};
    if (op->min_inputs > 1) operands.push_back(facts_tensor(kB));
    const std::vector<double> sum = computed(*op, operands);
    for (size_t i = 0; i < kA.size(); ++i) EXPECT_EQ(sum[i], op->terms.first * kA[i] + op->terms.second * kB[i]) << op->name;
  }
  EXPECT_EQ(found, 3);
}

TEST(OpFacts, ResultsScaleWithTheOperandsThatScale) {
  int found = 0;
  for (const OpDef* op : all_ops()) {
    if (op->max_inputs != 2 || op->min_inputs != 2 || !op->elementwise || op->scales == 0) continue;
    ++found;
    for (size_t operand = 0; operand < 2; ++operand) {
      std::vector<double> larger = operand == 0 ? kA : kB;
      for (double& value : larger) value *= 4;
      const std::vector<double> once = computed(*op, {facts_tensor(kA), facts_tensor(kB)});
      const std::vector<double> scaled =
          computed(*op, {facts_tensor(operand == 0 ? larger : kA), facts_tensor(operand == 1 ? larger : kB)});
      const bool scales = std::ranges::equal(once, scaled, [](double a, double b) { return 4 * a == b; });
      EXPECT_EQ(scales, (op->scales >> operand & 1) != 0) << op->name << ", operand " << operand;
    }
  }
  EXPECT_EQ(found, 2);
}

TEST(OpFacts, WhatConvertsReshapesOrPermutesKeepsEveryElement) {
  int found = 0;
  for (const OpDef* op : all_ops()) {
    if (!op->converts && !op->reshapes && !op->permutes) continue;
    ++found;
    Json attrs = Json::object();
    if (op->converts) attrs.set("dtype", "f32");
    if (op->reshapes) attrs.set("shape", Json(Json::Array{3, 2}));
    std::vector<double> result = computed(*op, {facts_tensor(kA)}, attrs), wanted = kA;
    EXPECT_EQ(result == wanted, !op->permutes) << op->name;
    std::ranges::sort(result), std::ranges::sort(wanted);
    EXPECT_EQ(result, wanted) << op->name;
  }
  EXPECT_EQ(found, 3);
}

TEST(OpFacts, ReductionsSumOrAverage) {
  int found = 0;
  for (const OpDef* op : all_ops()) {
    if (op->reduces == Reduces::none) continue;
    ++found;
    const std::vector<double> rows = computed(*op, {facts_tensor(kB)}, Json(Json::Object{{"axes", Json(Json::Array{1})}}));
    const double count = op->reduces == Reduces::mean ? 3 : 1;
    ASSERT_EQ(rows.size(), 2u) << op->name;
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(rows[i], (kB[3 * i] + kB[3 * i + 1] + kB[3 * i + 2]) / count, 1e-6) << op->name;
  }
  EXPECT_EQ(found, 2);
}

TEST(OpFacts, ScatteredRowsStandAtTheirPlaces) {
  int found = 0;
  for (const OpDef* op : all_ops()) {
    if (!op->scatters) continue;
    ++found;
    const Tensor places = Tensor::from(Shape{2}, std::vector<double>{3, 1}).to(Dtype::i64);
    const std::vector<double> rows = computed(*op, {facts_tensor(kA), places}, Json(Json::Object{{"axis", Json(0)}, {"size", Json(5)}}));
    EXPECT_EQ(rows, (std::vector<double>{0, 0, 0, -4, 5, -6, 0, 0, 0, 1, -2, 3, 0, 0, 0})) << op->name;
  }
  EXPECT_EQ(found, 1);
}

// The first results of x op number, number op x and op(op(x)), as many as there are of them.
Graph graph_of_simple_results(const OpDef& op, double number, int form) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, kFactsShape}), c = graph.constant(number, {Dtype::f32, Shape()});
  const Value y = form == 0   ? graph.apply(op.name, {x, c})
                  : form == 1 ? graph.apply(op.name, {c, x})
                              : graph.apply(op.name, {graph.apply(op.name, {x})});
  graph.output("y", y);
  return graph;
}

std::vector<double> output_of(const Graph& graph, const Tensor& x) {
  Interpreter interpreter(graph);
  interpreter.run({{"x", x}});
  const Tensor numbers = interpreter[Value(const_cast<Graph*>(&graph), graph.outputs()[0].value)].to(Dtype::f64);
  return {numbers.view().as<double>(), numbers.view().as<double>() + numbers.shape().elements()};
}

// Neutral numbers, inverses and powers. Transposes and folds, which are no element-wise ops: passes_test.cpp.
TEST(OpFacts, SimplerValuesEqualTheResult) {
  const Tensor x = facts_tensor({1, 2, 3, 4, 5, 6});
  std::map<std::string, int> simpler;  // by op: in how many ways
  for (const OpDef* op : all_ops()) {
    if (op->simpler == nullptr || !op->elementwise) continue;
    for (const double number : {0.0, 1.0, -1.0, 0.5, -0.5, 2.0})
      for (const int form : op->max_inputs == 1 ? std::vector{2} : std::vector{0, 1}) {
        const Graph graph = graph_of_simple_results(*op, number, form), simple = simplify(graph);
        simpler[op->name] += std::ranges::none_of(simple.nodes(), [&](const Node& node) { return node.op == op; });
        const std::vector<double> wanted = output_of(graph, x), got = output_of(simple, x);
        for (size_t i = 0; i < wanted.size(); ++i)
          EXPECT_TRUE(std::abs(got[i] - wanted[i]) <= 1e-6 * std::abs(wanted[i]) || got[i] == wanted[i])
              << op->name << ", " << number << " as operand " << 1 - form << ": " << got[i] << ", not " << wanted[i];
      }
  }
  EXPECT_EQ(simpler, (std::map<std::string, int>{{"add", 2}, {"div", 1}, {"mul", 2}, {"neg", 6}, {"pow", 5}, {"sub", 1}}));
}

// A call that `linear` stands for gives what it gives.
TEST(OpFacts, DenseCallsAreProductsByAWeight) {
  const Tensor x = facts_tensor(kA), weight = facts_tensor(kB);
  const std::vector<double> wanted = computed(op_named("linear"), {x, weight});
  int found = 0;
  for (const OpDef* op : all_ops()) {
    if (op->dense == nullptr) continue;
    const Option* transposed = op->attributes.find("transpose_b");
    const Json attrs = transposed == nullptr ? Json::object() : Json(Json::Object{{"transpose_b", Json(true)}});
    const Type types[] = {{x.dtype(), x.shape()}, {weight.dtype(), weight.shape()}};
    const bool present[] = {true, true};
    ASSERT_TRUE(op->dense({types, present, attrs})) << op->name;
    EXPECT_EQ(computed(*op, {x, weight}, attrs), wanted) << op->name;
    if (const Option* activation = op->attributes.find("activation")) {  // its result is no product any more
      for (const std::string_view name : activation->allowed()) {
        EXPECT_EQ(op->dense({types, present, Json(Json::Object{{"activation", Json(std::string(name))}})}), name == activation->fallback);
      }
    }
    ++found;
  }
  EXPECT_EQ(found, 2);
}

// Only a device's plans join gradients (plan_device.cpp).
TEST(OpFacts, AJoinedGradientIsOneByAnOperandOfImages) {
  int found = 0;
  for (const OpDef* op : all_ops()) {
    if (!op->joins_gradient) continue;
    ++found;
    EXPECT_TRUE(op->derivative && op->image && !op->gives_weight) << op->name;
  }
  EXPECT_EQ(found, 1);
}

// Ops that others take over: they exist, and their activations are choices of the attribute that names them.
TEST(OpFacts, OpsThatAreNamedExist) {
  int activations = 0, heads = 0, pools = 0, residuals = 0;
  for (const OpDef* op : all_ops()) {
    if (op->with_pool != nullptr) {
      const OpDef* pooled = find_op(op->with_pool);
      ASSERT_NE(pooled, nullptr) << op->name;
      for (const Option* option : op->attributes.all()) EXPECT_NE(pooled->attributes.find(option->name), nullptr) << option->name;
    }
    for (const char* name : op->replaces) EXPECT_NE(find_op(name), nullptr) << name;
    heads += !op->replaces.empty();
    pools += op->pools;
    for (const char* name : {"kind", "kernel", "stride", "padding", "dilation"}) {
      EXPECT_TRUE(!op->pools || op->attributes.find(name)) << op->name << ", " << name;
    }
    residuals += op->residual >= 0;
    if (op->residual >= 0) {
      EXPECT_LT(op->residual, op->max_inputs) << op->name;
      EXPECT_GE(op->residual, op->min_inputs) << op->name;
    }
    if (op->activation == nullptr) continue;
    activations += 1;
    EXPECT_TRUE(std::ranges::any_of(all_ops(), [&](const OpDef* user) { return takes_activation(*user, op->activation); })) << op->name;
    EXPECT_FALSE(takes_activation(*op, op->activation)) << op->name;
  }
  EXPECT_EQ(activations, 1);
  EXPECT_EQ(heads, 1);
  EXPECT_EQ(pools, 1);
  EXPECT_EQ(residuals, 1);
}

}  // namespace
}  // namespace perigee
