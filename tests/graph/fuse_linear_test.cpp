#include "src/graph/passes/fuse_linear.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "src/graph/build.h"
#include "src/graph/op.h"

namespace perigee {
namespace {

int count(const Graph& graph, const std::string& op) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& n) { return n.op->name == op; }));
}

struct Net {
  Graph graph;
  Value x = graph.input("x", {Dtype::f32, {8, 5}});
  Value w = graph.parameter("w", {Dtype::f32, {3, 5}});
  Value b = graph.parameter("b", {Dtype::f32, {3}});
};

TEST(FuseLinear, MakesOneOpOfProductBiasAndRelu) {
  Net net;
  net.graph.output("y", relu(net.b + matmul(net.x, net.w, false, true)));
  const Graph fused = fuse_linear(net.graph);
  ASSERT_EQ(count(fused, "linear"), 1);
  EXPECT_EQ(count(fused, "matmul") + count(fused, "add") + count(fused, "relu"), 0);
  const Node& node = fused.node(fused.outputs()[0].value);
  EXPECT_EQ(attr_string(node.attrs, "activation", "none"), "relu");
  EXPECT_EQ(node.inputs.size(), 3u);
  EXPECT_EQ(fused.leaves().size(), 3u);
}

TEST(FuseLinear, TakesReluIntoALinear) {
  Net net;
  net.graph.output("y", relu(net.graph.apply("linear", {net.x, net.w, net.b})));
  const Graph fused = fuse_linear(net.graph);
  EXPECT_EQ(count(fused, "linear"), 1);
  EXPECT_EQ(count(fused, "relu"), 0);
}

TEST(FuseLinear, KeepsWhatSomebodyElseReads) {
  Net net;
  const Value product = matmul(net.x, net.w, false, true), sum = product + net.b;
  net.graph.output("z", sum);
  net.graph.output("y", relu(sum));
  const Graph fused = fuse_linear(net.graph);
  EXPECT_EQ(count(fused, "linear"), 1);
  EXPECT_EQ(count(fused, "relu"), 1);
  EXPECT_EQ(attr_string(fused.node(fused.outputs()[0].value).attrs, "activation", "none"), "none");
}

TEST(FuseLinear, LeavesOtherProductsAlone) {
  Net net;
  const Value w = net.graph.parameter("wt", {Dtype::f32, {5, 8}});
  net.graph.output("y", matmul(net.x, w) + net.graph.parameter("full", {Dtype::f32, {8, 8}}));
  const Graph fused = fuse_linear(net.graph);
  EXPECT_EQ(count(fused, "matmul"), 1);
  EXPECT_EQ(count(fused, "add"), 1);
}

}  // namespace
}  // namespace perigee
