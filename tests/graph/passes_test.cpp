// The passes after autodiff change nothing but the number of nodes: random graphs before and after, run by the interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "src/graph/passes/fuse_elementwise.h"
#include "src/graph/passes/simplify.h"
#include "src/graph/plan.h"
#include "tests/graph/cases.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

int count(const Graph& graph, std::string_view op) {
  int n = 0;
  for (const Node& node : graph.nodes()) n += op == node.op->name;
  return n;
}

std::map<std::string, Tensor> leaf_values(const Graph& graph, uint64_t seed) {
  std::map<std::string, Tensor> values;
  std::mt19937_64 random(seed);
  for (const Leaf& leaf : graph.leaves()) values[leaf.name] = case_values(real(graph.type(leaf.value).shape), false, random);
  return values;
}

void expect_same_outputs(const Graph& before, const Graph& after, uint64_t seed) {
  const auto leaves = leaf_values(before, seed);
  Interpreter a(before), b(after);
  a.run(leaves);
  b.run(leaves);
  ASSERT_EQ(before.outputs().size(), after.outputs().size());
  for (size_t i = 0; i < before.outputs().size(); ++i) {
    const Tensor x = a[Value(const_cast<Graph*>(&before), before.outputs()[i].value)],
                 y = b[Value(const_cast<Graph*>(&after), after.outputs()[i].value)];
    ASSERT_EQ(x.shape(), y.shape());
    ASSERT_EQ(x.dtype(), y.dtype());
    for (int64_t k = 0; k < x.elements(); ++k) {
      const double expected = load_as<double>(x.view(), k), got = load_as<double>(y.view(), k);
      ASSERT_NEAR(expected, got, 1e-5 * std::abs(expected) + 1e-6) << before.outputs()[i].name << ", element " << k << ", seed " << seed;
    }
  }
}

// A random graph of element-wise ops on values of several shapes, with reductions and softmax in between, and its gradients.
Graph random_graph(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  Graph graph;
  std::vector<Value> values = {graph.input("x", {Dtype::f32, {3, 4, 5}}), graph.input("y", {Dtype::f32, {3, 4, 5}}),
                               graph.parameter("scale", {Dtype::f32, {4, 1}}), graph.parameter("shift", {Dtype::f32, {5}})};
  const std::vector<Value> leaves = values;
  for (int i = 0; i < 25; ++i) {
    const Value a = values[pick(values.size())], b = values[pick(values.size())];
    static const char* const kUnary[] = {"tanh", "sigmoid", "relu", "neg", "sin", "abs", "softplus"};
    static const char* const kBinary[] = {"add", "sub", "mul", "maximum"};
    switch (pick(9)) {
      case 0: values.push_back(graph.apply("softmax", {a})); break;
      case 1: values.push_back(a * 0.5 + 1.0); break;
      case 2: values.push_back(where(greater(a, b), a * 1.0, b + 0.0)); break;
      case 3: values.push_back(graph.apply("broadcast_like", {reduce_mean(a, {-1}, true), a})); break;
      case 4:
      case 5: values.push_back(graph.apply(kUnary[pick(std::size(kUnary))], {a})); break;
      default: values.push_back(graph.apply(kBinary[pick(std::size(kBinary))], {a, b})); break;
    }
  }
  Value root;
  for (size_t i = values.size() - 4; i < values.size(); ++i) {
    std::vector<int64_t> axes;
    for (int d = 0; d < values[i].rank(); ++d) axes.push_back(d);
    const Value sum = reduce_sum(tanh(values[i]), axes);
    root = root ? root + sum : sum;
    graph.output("value " + std::to_string(i), values[i]);
  }
  const std::vector<Value> slopes = gradients(graph, root, graph.constant(1, root.type()), leaves);
  for (size_t i = 0; i < slopes.size(); ++i)
    if (slopes[i]) graph.output("gradient " + std::to_string(i), slopes[i]);
  return graph;
}

TEST(Passes, RandomGraphsKeepTheirOutputs) {
  int before = 0, after = 0, programs = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = random_graph(seed), simple = simplify(graph), fused = fuse_elementwise(simple);
    ASSERT_NO_FATAL_FAILURE(expect_same_outputs(graph, simple, seed));
    ASSERT_NO_FATAL_FAILURE(expect_same_outputs(graph, fused, seed));
    before += static_cast<int>(simple.nodes().size());
    after += static_cast<int>(fused.nodes().size());
    programs += count(fused, "fused");
  }
  EXPECT_GT(programs, 100);
  EXPECT_LT(after, before * 2 / 3);
}

// Images through convolutions and element-wise ops, with gradients: what plans lay out channels-last, alias and compute in place.
Graph random_image_graph(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  Graph graph;
  const Type images{Dtype::f32, {3, 4, 5, 6}};
  const std::vector<Value> leaves = {graph.input("x", images), graph.parameter("weight", {Dtype::f32, {4, 4, 3, 3}}),
                                     graph.parameter("scale", {Dtype::f32, {4, 1, 1}})};
  std::vector<Value> values = {leaves[0]};
  for (int i = 0; i < 14; ++i) {
    const Value a = values[pick(values.size())], b = values[pick(values.size())];
    switch (pick(8)) {
      case 0: values.push_back(graph.apply("conv2d", {a, leaves[1]}, Json::parse(R"({"padding":[1,1,1,1]})", "attrs"))); break;
      case 1: values.push_back(transpose(transpose(a, {0, 2, 3, 1}), {0, 3, 1, 2})); break;
      case 2: values.push_back(reshape(reshape(a, {3, 4, 30}) * 0.5, images.shape)); break;
      case 3: values.push_back(a * leaves[2] + b); break;
      case 4: values.push_back(a - reduce_mean(b, {0, 2, 3}, true)); break;
      case 5: values.push_back(where(greater(a, b), tanh(a), b)); break;
      case 6: values.push_back(graph.apply("softmax", {a}, Json::parse(R"({"axis":1})", "attrs"))); break;
      default: values.push_back(sigmoid(a) * b); break;
    }
  }
  const Value loss = reduce_sum(tanh(values.back() + values[values.size() - 2] * 0.5), {0, 1, 2, 3});
  graph.output("last", values.back());
  const std::vector<Value> slopes = gradients(graph, loss, graph.constant(1, loss.type()), leaves);
  for (size_t i = 0; i < slopes.size(); ++i)
    if (slopes[i]) graph.output("gradient " + std::to_string(i), slopes[i]);
  return graph;
}

void expect_plan_agrees(const Graph& graph, const Graph& compiled, uint64_t seed) {
  auto leaves = leaf_values(graph, seed);
  Interpreter interpreter(graph);
  interpreter.run(leaves);
  const auto plan = Plan::compile(compiled, {});
  const Storage arena(plan->arena_bytes() + 64);
  std::vector<void*> parameters;
  for (const std::string& name : plan->parameters()) parameters.push_back(leaves[name].data<std::byte>());
  PlanRun run(plan, {.arena = arena.data(), .parameters = parameters});
  for (size_t i = 0; i < plan->inputs().size(); ++i) run.set_input(static_cast<int>(i), leaves[plan->inputs()[i]].data<std::byte>());
  for (int again = 0; again < 2; ++again) {  // the second time the arena holds what the first left
    run.pack();
    run.run(nullptr, {});
    for (const NamedValue& output : graph.outputs()) {
      const Tensor expected = interpreter[Value(const_cast<Graph*>(&graph), output.value)], got = contiguous_copy(run.output(output.name));
      double largest = 0.1;
      for (int64_t k = 0; k < expected.elements(); ++k) largest = std::max(largest, std::abs(double{expected.data<float>()[k]}));
      for (int64_t k = 0; k < expected.elements(); ++k)
        ASSERT_NEAR(expected.data<float>()[k], got.data<float>()[k], 5e-4 * largest)
            << output.name << ", element " << k << ", seed " << seed << "\n"
            << plan->report();
    }
  }
}

TEST(Passes, PlansOfRandomGraphsAgreeWithTheInterpreter) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = random_image_graph(seed);
    ASSERT_NO_FATAL_FAILURE(expect_plan_agrees(graph, graph, seed));
    ASSERT_NO_FATAL_FAILURE(expect_plan_agrees(graph, fuse_elementwise(simplify(graph)), seed));
  }
}

TEST(Passes, AChainBecomesOneNode) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {8, 6, 4, 4}}), scale = graph.parameter("scale", {Dtype::f32, {6, 1, 1}});
  graph.output("y", relu(x * scale + 1.0) * sigmoid(x));
  const Graph fused = fuse_elementwise(simplify(graph));
  EXPECT_EQ(count(fused, "fused"), 1);
  EXPECT_EQ(count(fused, "mul") + count(fused, "add") + count(fused, "relu") + count(fused, "sigmoid"), 0);
  expect_same_outputs(graph, fused, 1);
}

// exp(x) feeds a sum, and the quotient needs both: one group would have to be computed before and after the sum.
TEST(Passes, APathThroughAnotherNodeIsNotClosedIntoALoop) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {5, 7}}), e = exp(x * 2.0);
  graph.output("y", e / reduce_sum(e, {1}, true) + 1.0);
  const Graph fused = fuse_elementwise(simplify(graph));
  EXPECT_EQ(count(fused, "fused"), 2);
  expect_same_outputs(graph, fused, 1);
}

TEST(Passes, SimplifyDropsWhatIsUnusedTwiceOrNeutral) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {5, 7}});
  exp(x);
  const Value a = tanh(x), b = tanh(x);
  graph.output("y", a * ones_like(x) + b * 1.0 + 0.0);
  graph.output("z", reshape(reshape(x, {7, 5}), {35}));
  const Graph simple = simplify(graph);
  EXPECT_EQ(count(simple, "exp"), 0);
  EXPECT_EQ(count(simple, "tanh"), 1);
  EXPECT_EQ(count(simple, "mul"), 0);
  EXPECT_EQ(count(simple, "add"), 1);
  EXPECT_EQ(count(simple, "reshape"), 1);
  expect_same_outputs(graph, simple, 1);
}

// Layers of sequences stand features first, their ops steps first: nothing is left of the turns between two of them.
TEST(Passes, TurnsOfDimensionsCancel) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, Shape{2, 3, 4}});
  graph.output("same", tanh(transpose(transpose(x, {0, 2, 1}), {0, 2, 1})));
  graph.output("turned back", tanh(transpose(transpose(x, {1, 2, 0}), {2, 0, 1})));
  graph.output("once", tanh(transpose(transpose(x, {1, 2, 0}), {1, 2, 0})));
  graph.output("both ways", tanh(transpose(transpose(x, {1, 2, 0}), {0, 2, 1})));
  const Value rows = graph.apply("fold_steps", {x});
  const auto unfolded = [&](Value value, int steps) {
    return graph.apply("unfold_steps", {value}, Json(Json::Object{{"steps", Json(steps)}}));
  };
  graph.output("steps", tanh(unfolded(rows, 3)));
  graph.output("rows", tanh(graph.apply("fold_steps", {unfolded(graph.input("r", {Dtype::f32, Shape{6, 4}}), 3)})));
  graph.output("other steps", tanh(unfolded(rows, 2)));
  const Graph simple = simplify(graph);
  std::vector<std::vector<int64_t>> turns;
  const int folds = count(simple, "fold_steps") + count(simple, "unfold_steps");
  for (const Node& node : simple.nodes())
    if (node.op->permutes) turns.push_back(attr_ints(node, "order"));
  EXPECT_EQ(turns, (std::vector<std::vector<int64_t>>{{2, 0, 1}, {1, 0, 2}}));
  EXPECT_EQ(folds, 2);  // of other steps
  expect_same_outputs(graph, simple, 1);
}

TEST(Passes, PowersWithAnOpOfTheirOwnBecomeIt) {
  Graph graph;
  const Value x = square(graph.input("x", {Dtype::f32, {5, 7}})) + 0.5;
  const Value two = graph.apply("pow", {x, graph.constant(2, {Dtype::f32, {}})}),
              half = graph.apply("pow", {x, graph.constant(0.5, {Dtype::f32, {}})});
  const Value sum = reduce_sum(two + half, {0, 1});
  graph.output("y", sum);
  graph.output("dx", gradients(graph, sum, graph.constant(1, sum.type()), std::vector<Value>{x})[0]);
  const Graph simple = simplify(graph);
  EXPECT_EQ(count(simple, "pow"), 0);
  expect_same_outputs(graph, simple, 1);
}

TEST(Passes, OutputsThatAreOneValueStayApart) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {5, 7}});
  graph.output("y", tanh(x) * 2.0);
  graph.output("z", tanh(x) * 2.0);
  const Graph fused = fuse_elementwise(simplify(graph));
  EXPECT_EQ(count(fused, "tanh") + count(fused, "fused"), 1);
  EXPECT_NE(fused.outputs()[0].value, fused.outputs()[1].value);
  expect_same_outputs(graph, fused, 1);
}

// A program keeps comparisons as numbers, and gives them away as truth values: what a cast makes of one is another result.
TEST(Passes, AComparisonThatIsReadAsNumbersStaysNumbers) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, Shape{3, 4}}), zero = graph.constant(0, {Dtype::f32, Shape()});
  const Value mask = cast(greater(x, zero), Dtype::f32);
  graph.output("kept", where(greater(mask, zero), x, zero));
  graph.output("sum", matmul(mask, x, false, true));
  const Graph after = fuse_elementwise(graph);
  for (const Node& node : after.nodes())
    for (const ValueId& id : node.inputs) {
      if (std::string_view("matmul") != node.op->name) continue;
      EXPECT_EQ(after.type(id).dtype, Dtype::f32);
    }
  expect_same_outputs(graph, after, 3);
}

TEST(Passes, AFusedProgramSlicesAsItsOpsDo) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {8, 6}}), w = graph.parameter("w", {Dtype::f32, {6}});
  const Value y = tanh(x * w + w);
  graph.output("y", y);
  graph.output("g", reduce_sum(y * y * 0.5, {0}));
  const SliceAnalysis slices = analyze_slices(fuse_elementwise(simplify(graph)));
  EXPECT_TRUE(slices.sliceable) << slices.reason;
}

}  // namespace
}  // namespace perigee
