// fuse_conv finds its chains, leaves alone what must stay, and changes no value.
#include "src/graph/passes/fuse_conv.h"

#include <gtest/gtest.h>

#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "tests/graph/cases.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

int count(const Graph& graph, std::string_view op) {
  int n = 0;
  for (const Node& node : graph.nodes()) n += node.op->name == op;
  return n;
}

struct Net {
  Graph graph;
  Value x = graph.input("x", {Dtype::f64, {2, 3, 9, 9}});
  Value w = graph.parameter("w", {Dtype::f64, {4, 3, 3, 3}});
  Value b = graph.parameter("b", {Dtype::f64, {4}});

  Value conv(bool with_bias = false) { return with_bias ? graph.apply("conv2d", {x, w, b}) : graph.apply("conv2d", {x, w}); }
  Value pool(Value v, const char* attrs = R"({"kind":"max","kernel":[2,2],"stride":[2,2]})") {
    return graph.apply("pool2d", {v}, Json::parse(attrs, "test"));
  }
  Value bias(Value v) { return v + reshape(b, {1, 4, 1, 1}); }
};

std::map<std::string, Tensor> leaves(const Graph& graph) {
  std::mt19937_64 random(7);
  std::map<std::string, Tensor> values;
  for (const Leaf& leaf : graph.leaves()) values[leaf.name] = case_values(real(graph.type(leaf.value).shape), true, random);
  return values;
}

// The output "y" and the gradient of its sum with respect to w are the same before and after.
void expect_equal_values(const Graph& before) {
  std::vector<Tensor> results[2];
  int i = 0;
  for (const Graph& graph : {before, fuse_conv(before)}) {
    Graph differentiated = graph;
    Value y(&differentiated, differentiated.outputs().at(0).value), w;
    for (const Leaf& leaf : differentiated.leaves())
      if (leaf.name == "w") w = Value(&differentiated, leaf.value);
    const Value targets[] = {w};
    const Value dw = gradients(differentiated, y, ones_like(y), targets).at(0);
    Interpreter interpreter(differentiated);
    interpreter.run(leaves(differentiated));
    results[i++] = {interpreter[y].clone(), interpreter[dw].clone()};
  }
  for (size_t k = 0; k < 2; ++k) {
    ASSERT_EQ(results[0][k].shape().text(), results[1][k].shape().text());
    for (int64_t e = 0; e < results[0][k].elements(); ++e)
      EXPECT_NEAR(results[0][k].data<double>()[e], results[1][k].data<double>()[e], 1e-9) << "result " << k << " element " << e;
  }
}

TEST(FuseConv, WholeChainBecomesOneOp) {
  Net net;
  net.graph.output("y", net.pool(relu(net.bias(net.conv()))));
  const Graph fused = fuse_conv(net.graph);
  EXPECT_EQ(count(fused, "conv2d_pool"), 1);
  EXPECT_EQ(count(fused, "conv2d") + count(fused, "relu") + count(fused, "pool2d") + count(fused, "add"), 0);
  expect_equal_values(net.graph);
}

TEST(FuseConv, ReluMayComeAfterThePooling) {
  Net net;
  net.graph.output("y", relu(net.pool(net.conv(true))));
  EXPECT_EQ(count(fuse_conv(net.graph), "conv2d_pool"), 1);
  EXPECT_EQ(count(fuse_conv(net.graph), "relu"), 0);
  expect_equal_values(net.graph);
}

TEST(FuseConv, WithoutPoolingReluMovesIntoTheConvolution) {
  Net net;
  net.graph.output("y", relu(net.bias(net.conv())));
  const Graph fused = fuse_conv(net.graph);
  EXPECT_EQ(count(fused, "conv2d"), 1);
  EXPECT_EQ(count(fused, "relu") + count(fused, "add"), 0);
  expect_equal_values(net.graph);
}

TEST(FuseConv, OverlappingOrPaddedWindowsStay) {
  for (const char* attrs :
       {R"({"kind":"max","kernel":[3,3],"stride":[2,2]})", R"({"kind":"max","kernel":[2,2],"stride":[2,2],"padding":[1,1,0,0]})",
        R"({"kind":"average","kernel":[2,2],"stride":[2,2]})"}) {
    Net net;
    net.graph.output("y", net.pool(net.conv(true), attrs));
    EXPECT_EQ(count(fuse_conv(net.graph), "conv2d_pool"), 0) << attrs;
    expect_equal_values(net.graph);
  }
}

TEST(FuseConv, ValuesThatOthersUseStay) {
  Net net;
  const Value activated = relu(net.conv(true));
  net.graph.output("y", net.pool(activated));
  net.graph.output("features", activated);
  const Graph fused = fuse_conv(net.graph);
  EXPECT_EQ(count(fused, "conv2d_pool"), 0);
  EXPECT_EQ(count(fused, "pool2d"), 1);
  EXPECT_EQ(fused.outputs().size(), 2u);
  expect_equal_values(net.graph);
}

}  // namespace
}  // namespace perigee
