#include "src/graph/passes/fuse_linear.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "src/graph/autodiff.h"
#include "src/graph/gelu.h"
#include "src/graph/op.h"
#include "src/graph/passes/passes.h"
#include "src/graph/passes/simplify.h"
#include "tests/graph/interpreter.h"

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
  EXPECT_EQ(attr_string(node, "activation"), "relu");
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
  EXPECT_EQ(attr_string(fused.node(fused.outputs()[0].value), "activation"), "none");
}

TEST(FuseLinear, TakesGeluWhereItIsAskedTo) {
  for (const GeluIn where : {GeluIn::elementwise, GeluIn::product, GeluIn::product_for_gradients}) {
    Net net;
    net.graph.output("y", gelu_tanh(matmul(net.x, net.w, false, true) + net.b));
    const Graph fused = fuse_linear(net.graph, where);
    const bool joined = where != GeluIn::elementwise;
    EXPECT_EQ(count(fused, "tanh"), joined ? 0 : 1);
    const auto linear =
        std::find_if(fused.nodes().begin(), fused.nodes().end(), [](const Node& n) { return n.op->name == std::string("linear"); });
    ASSERT_NE(linear, fused.nodes().end());
    EXPECT_EQ(attr_string(*linear, "activation"), joined ? "gelu_tanh" : "none");
    EXPECT_EQ(linear->outputs.size(), where == GeluIn::product_for_gradients ? 2u : 1u);
  }
}

// Another reader of what gelu is taken of, or of what lies between; and what is almost gelu.
TEST(FuseLinear, TakesNoGeluThatIsNotAlone) {
  const auto fused_by = [](const std::function<void(Net&, Value)>& build) {
    Net net;
    build(net, matmul(net.x, net.w, false, true) + net.b);
    return fuse_linear(net.graph, GeluIn::product);
  };
  for (const auto& build : std::initializer_list<std::function<void(Net&, Value)>>{
           [](Net&net, Value z) { net.graph.output("y", gelu_tanh(z)), net.graph.output("z", z); },
           [](Net&net, Value z) { net.graph.output("y", gelu_tanh(z) + z); },
           [](Net&net, Value z) {
             net.graph.output("y", gelu_tanh(z));
             for (const Node& node : net.graph.nodes())
               if (node.op->name == std::string("tanh")) return net.graph.output("t", node.out(net.graph));
           },
           [](Net&net, Value z) { net.graph.output("y", 0.5 * z * (1.0 + tanh(kGeluScale * (z + 0.0447 * (z * square(z)))))); },
           [](Net&net, Value z) { net.graph.output("y", 0.5 * z * (1.0 + net.graph.apply("erf", {0.7071067811865476 * z}))); }}) {
    const Graph fused = fused_by(build);
    EXPECT_EQ(count(fused, "tanh") + count(fused, "erf"), 1);
    EXPECT_EQ(count(fused, "linear"), 1);
  }
}

using Activation = Value (*)(Value);
const Activation kActivations[] = {[](Value z) { return relu(z); }, [](Value z) { return gelu_tanh(z); }};

// y = w2 act(w1 x + b1) and the gradients of its sum, as a plan is made of it or as it is written.
Graph two_layers(Activation activation, bool fused, Dtype dtype) {
  Graph graph;
  const Value x = graph.input("x", {dtype, {8, 5}}), w1 = graph.parameter("w1", {dtype, {3, 5}}), b1 = graph.parameter("b1", {dtype, {3}}),
              w2 = graph.parameter("w2", {dtype, {4, 3}});
  graph.output("y", matmul(activation(matmul(x, w1, false, true) + b1), w2, false, true));
  if (fused) graph = fuse_forward(graph, GeluIn::product_for_gradients);
  std::vector<Value> targets;
  for (const Leaf& leaf : graph.leaves()) targets.push_back(Value(&graph, leaf.value));
  const Value y(&graph, graph.outputs()[0].value);
  const std::vector<Value> flows = gradients(graph, y, ones_like(y), targets);
  for (size_t i = 0; i < flows.size(); ++i) graph.output("grad:" + graph.leaves()[i].name, flows[i]);
  return fused ? simplify(graph) : graph;
}

// The slope of the layer below is taken by the gradient of the layer above, and no gradient is made twice.
TEST(FuseLinear, SlopesArePartOfTheGradientAbove) {
  for (const Activation activation : kActivations) {
    const Graph graph = two_layers(activation, true, Dtype::f32);
    EXPECT_EQ(count(graph, "linear"), 2);
    EXPECT_EQ(count(graph, "linear_grad_input"), 2);  // of y1 with the slope, and of x
    EXPECT_EQ(count(graph, "linear_grad_weight"), 2);
    EXPECT_EQ(count(graph, "where") + count(graph, "tanh") + count(graph, "mul"), 0);
  }
}

TEST(FuseLinear, ChangesNoNumber) {
  for (const Activation activation : kActivations) {
    Graph graphs[] = {two_layers(activation, false, Dtype::f64), two_layers(activation, true, Dtype::f64)};
    std::mt19937_64 random(5);
    std::map<std::string, Tensor> leaves;
    for (const Leaf& leaf : graphs[0].leaves()) {
      Tensor& tensor = leaves.emplace(leaf.name, Tensor(Dtype::f64, graphs[0].type(leaf.value).shape)).first->second;
      for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<double>()[i] = std::uniform_real_distribution<>(-2, 2)(random);
    }
    Interpreter plain(graphs[0]), fused(graphs[1]);
    plain.run(leaves), fused.run(leaves);
    for (size_t o = 0; o < graphs[0].outputs().size(); ++o) {
      const Tensor &expected = plain[Value(&graphs[0], graphs[0].outputs()[o].value)],
                   &got = fused[Value(&graphs[1], graphs[1].outputs()[o].value)];
      for (int64_t i = 0; i < expected.elements(); ++i)
        EXPECT_NEAR(got.data<double>()[i], expected.data<double>()[i], 1e-12) << graphs[0].outputs()[o].name << ' ' << i;
    }
  }
}

// torch.nn.functional.gelu(z, approximate="tanh") and its derivative in float64.
TEST(FuseLinear, GeluIsPyTorchs) {
  static constexpr double kTruth[][3] = {{-6, -8.43964897967453e-11, -7.7099760128363292e-10},
                                         {-2.5, -0.015084266089998577, -0.037951576212666177},
                                         {-1, -0.15880800939172324, -0.082964083845782521},
                                         {-0.3, -0.11462907645724074, 0.26770454836119817},
                                         {0, 0, 0.5},
                                         {0.2, 0.11585142978210627, 0.65745814919569956},
                                         {0.75, 0.57996055516562028, 0.99893825613741427},
                                         {1.5, 1.3995715769802328, 1.127710793151433},
                                         {4, 3.9999297540518075, 1.000335123197122},
                                         {9, 9, 1}};
  constexpr auto kCount = static_cast<int64_t>(std::size(kTruth));
  Graph graph;
  const Type column{Dtype::f64, {kCount, 1}}, number{Dtype::f64, {1, 1}};
  const Value z = graph.input("z", column), one = graph.parameter("one", number);
  Json attrs = Json::object();
  attrs.set("activation", "gelu_tanh");
  const Value joined = graph.apply("linear", {z, one}, attrs), apart = gelu_tanh(z);
  const Value slope = graph.apply("linear_grad_input", {ones_like(z), one, z}, attrs);
  Tensor points(Dtype::f64, column.shape), unit(Dtype::f64, number.shape);
  for (int64_t i = 0; i < kCount; ++i) points.data<double>()[i] = kTruth[i][0];
  unit.data<double>()[0] = 1;
  Interpreter run(graph);
  run.run({{"z", points}, {"one", unit}});
  for (int64_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(run[joined].data<double>()[i], kTruth[i][1], 1e-14) << kTruth[i][0];
    EXPECT_NEAR(run[apart].data<double>()[i], kTruth[i][1], 1e-14) << kTruth[i][0];
    EXPECT_NEAR(run[slope].data<double>()[i], kTruth[i][2], 1e-14) << kTruth[i][0];
  }
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
