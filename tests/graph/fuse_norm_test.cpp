// relu(batch_norm(x) + residual) becomes one op, and computes the same.
#include <gtest/gtest.h>

#include "src/graph/build.h"
#include "src/graph/passes/fuse_norm.h"
#include "tests/graph/cases.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

int count(const Graph& graph, std::string_view op) {
  int n = 0;
  for (const Node& node : graph.nodes()) n += node.op->name == op;
  return n;
}

Value norm(Graph& graph, Value x) { return graph.apply("batch_norm", {x}); }

Tensor output_of(const Graph& graph, const std::map<std::string, Tensor>& leaves) {
  Graph copy = graph;
  Interpreter interpreter(copy);
  interpreter.run(leaves);
  return interpreter[Value(&copy, copy.outputs().at(0).value)].clone();
}

void expect_same(const Graph& a, const Graph& b) {
  std::mt19937_64 random(3);
  const std::map<std::string, Tensor> leaves{{"x", case_values(real({6, 4}), true, random)}};
  const Tensor left = output_of(a, leaves), right = output_of(b, leaves);
  for (int64_t i = 0; i < left.elements(); ++i) EXPECT_DOUBLE_EQ(left.data<double>()[i], right.data<double>()[i]);
}

TEST(FuseNorm, TakesInResidualAndRelu) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f64, {6, 4}});
  const Value y = norm(graph, x);
  const Value shortcut = norm(graph, square(x));                // comes after the normalisation that it is added to
  const Value doubled = 2.0 * Value(&graph, {y.id().node, 1});  // the mean is read before the sum is made
  graph.output("y", relu(y + shortcut));
  graph.output("mean", doubled);
  const Graph fused = fuse_norm(graph);
  EXPECT_EQ(count(fused, "relu"), 0);
  EXPECT_EQ(count(fused, "add"), 0);
  EXPECT_EQ(count(fused, "batch_norm"), 2);
  expect_same(graph, fused);
}

TEST(FuseNorm, LeavesAloneWhatIsReadTwice) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f64, {6, 4}});
  const Value y = norm(graph, x);
  graph.output("y", relu(y) + y);
  const Graph fused = fuse_norm(graph);
  EXPECT_EQ(count(fused, "relu"), 1);
  expect_same(graph, fused);
}

TEST(FuseNorm, AddsOnlyWhatHasTheSameShape) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f64, {6, 4}});
  graph.output("y", norm(graph, x) + graph.constant(1, {Dtype::f64, {4}}));
  const Graph fused = fuse_norm(graph);
  EXPECT_EQ(count(fused, "add"), 1);
  expect_same(graph, fused);
}

}  // namespace
}  // namespace perigee
