#include "src/graph/passes/fuse_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "src/graph/op.h"
#include "src/graph/passes/passes.h"
#include "src/graph/plan.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

int count(const Graph& graph, const std::string& op) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& n) { return n.op->name == op; }));
}

struct Net {
  explicit Net(int64_t classes = 10, int64_t width = 12, Dtype dtype = Dtype::f32)
      : x(graph.input("x", {dtype, {6, 8}})),
        label(graph.input("label", {Dtype::i64, {6}})),
        w1(graph.parameter("w1", {dtype, {width, 8}})),
        b1(graph.parameter("b1", {dtype, {width}})),
        w2(graph.parameter("w2", {dtype, {classes, width}})),
        b2(graph.parameter("b2", {dtype, {classes}})) {}

  Value hidden() { return relu(matmul(x, w1, false, true) + b1); }
  Value product(Value h) { return matmul(h, w2, false, true) + b2; }
  Value loss(Value logits, const char* attrs = "{}") {
    return graph.apply("cross_entropy", {logits, label}, Json::parse(attrs, "attributes"));
  }

  // As Model::training_graph makes a graph of the loss, but for the last pass.
  Graph training(Value output, Value loss_value) {
    graph.output("output", output);
    graph.output("loss", loss_value);
    Graph all = fuse_forward(graph, GeluIn::product_for_gradients);
    std::vector<Value> targets;
    std::vector<std::string> names;
    for (const Leaf& leaf : all.leaves())
      if (leaf.kind == LeafKind::parameter) targets.push_back(Value(&all, leaf.value)), names.push_back(leaf.name);
    const Value of(&all, all.outputs()[1].value);
    const std::vector<Value> flows = gradients(all, of, ones_like(of), targets);
    for (size_t i = 0; i < flows.size(); ++i)
      if (flows[i]) all.output("grad:" + names[i], flows[i]);
    return fuse_backward(all);
  }

  Graph graph;
  Value x, label, w1, b1, w2, b2;
};

Graph plain(Net& net) {
  const Value logits = net.product(net.hidden());
  return net.training(logits, net.loss(logits));
}

// All outputs of both have the same bits: the reference of the joined op is the references of the four.
void expect_same_numbers(const Graph& before, const Graph& after) {
  std::mt19937_64 random(3);
  std::map<std::string, Tensor> leaves;
  for (const Leaf& leaf : before.leaves()) {
    const Type& type = before.type(leaf.value);
    Tensor& tensor = leaves.emplace(leaf.name, Tensor(type.dtype, type.shape)).first->second;
    for (int64_t i = 0; i < tensor.elements(); ++i)
      if (type.dtype == Dtype::i64) tensor.data<int64_t>()[i] = static_cast<int64_t>(random() % 10);
      else tensor.data<float>()[i] = std::uniform_real_distribution<float>(-2, 2)(random);
  }
  Graph graphs[] = {before, after};
  ASSERT_EQ(graphs[0].outputs().size(), graphs[1].outputs().size());
  Interpreter one(graphs[0]), other(graphs[1]);
  one.run(leaves), other.run(leaves);
  for (size_t o = 0; o < graphs[0].outputs().size(); ++o) {
    ASSERT_EQ(graphs[0].outputs()[o].name, graphs[1].outputs()[o].name);
    const Tensor &expected = one[Value(&graphs[0], graphs[0].outputs()[o].value)],
                 &got = other[Value(&graphs[1], graphs[1].outputs()[o].value)];
    EXPECT_EQ(std::memcmp(expected.data<float>(), got.data<float>(), expected.bytes()), 0) << graphs[0].outputs()[o].name;
  }
}

// Whether nothing of the kinds that it is made of is left.
void expect_joined(const Graph& graph, int heads = 1) {
  EXPECT_EQ(count(graph, "linear_cross_entropy"), heads);
  EXPECT_EQ(count(graph, "cross_entropy") + count(graph, "cross_entropy_grad"), 0);
}

TEST(FuseHead, JoinsFourOps) {
  Net net;
  const Graph before = plain(net), after = fuse_head(before);
  expect_joined(after);
  EXPECT_EQ(count(after, "linear"), 1);
  EXPECT_EQ(count(after, "linear_grad_input"), 0);
  EXPECT_EQ(count(after, "linear_grad_weight"), 2);
  expect_same_numbers(before, after);
  for (const Node& node : after.nodes())
    if (node.op->name == std::string("linear_cross_entropy")) {
      EXPECT_EQ(attr_string(node, "activation"), "relu");
      EXPECT_EQ(node.scope, before.nodes()[0].scope);
    }
}

TEST(FuseHead, JoinsWhateverLiesBelow) {
  const std::function<Value(Net&)> below[] = {
      [](Net& net) { return matmul(net.x, net.w1, false, true) + net.b1; },
      [](Net& net) { return tanh(matmul(net.x, net.w1, false, true)); },
      [](Net& net) { return net.hidden() * 0.5; },
  };
  for (const auto& make : below)
    for (const char* attrs : {"{}", R"({"label_smoothing": 0.2})"}) {
      Net net;
      const Value logits = matmul(make(net), net.w2, false, true);
      const Graph before = net.training(logits, net.loss(logits, attrs)), after = fuse_head(before);
      expect_joined(after);
      expect_same_numbers(before, after);
    }
}

// Readers of logits and losses that come before the gradients; a seed that is more than ones.
TEST(FuseHead, OthersReadWhatTheyDid) {
  {
    Net net;
    const Value logits = net.product(net.hidden());
    const Graph before = net.training(net.graph.apply("softmax", {logits}), net.loss(logits)), after = fuse_head(before);
    expect_joined(after);
    EXPECT_EQ(count(after, "softmax"), 1);
    expect_same_numbers(before, after);
  }
  {
    Net net;
    const Value logits = net.product(net.hidden());
    const Graph before = net.training(logits, net.loss(logits) * 0.3), after = fuse_head(before);
    expect_joined(after);
    expect_same_numbers(before, after);
  }
}

TEST(FuseHead, JoinsEveryHead) {
  Net net;
  const Value h = net.hidden(), second = net.graph.parameter("w3", {Dtype::f32, {10, 12}});
  const Value one = net.product(h), other = matmul(h, second, false, true);
  const Graph before = net.training(one, net.loss(one) + net.loss(other) * 0.5), after = fuse_head(before);
  expect_joined(after, 2);
  expect_same_numbers(before, after);
}

// The loss' gradient takes the loss itself: there is no order for one op.
TEST(FuseHead, LeavesACircleAlone) {
  Net net;
  const Value logits = net.product(net.hidden()), loss = net.loss(logits);
  const Graph after = fuse_head(net.training(logits, loss * loss));
  EXPECT_EQ(count(after, "linear_cross_entropy"), 0);
  EXPECT_EQ(count(after, "cross_entropy_grad"), 1);
}

TEST(FuseHead, LeavesOtherHeadsAlone) {
  const std::function<Graph()> others[] = {
      [] {
        Net net(33);
        return plain(net);
      },
      [] {
        Net net(32, 772);
        return plain(net);
      },
      [] {
        Net net(10, 14);  // no vectors of four
        return plain(net);
      },
      [] {
        Net net(10, 12, Dtype::f64);
        return plain(net);
      },
      [] {
        Net net;  // relu behind the logits
        const Value logits = relu(net.product(net.hidden()));
        return net.training(logits, net.loss(logits));
      },
      [] {
        Net net;
        const Value logits = net.product(net.hidden()), q = net.graph.input("q", {Dtype::f32, {6, 10}});
        return net.training(logits, net.graph.apply("cross_entropy", {logits, q}));
      },
      [] {
        Net net;  // the gradient of x is not needed
        const Value logits = matmul(net.x, net.graph.parameter("w", {Dtype::f32, {10, 8}}), false, true);
        return net.training(logits, net.loss(logits));
      },
  };
  for (const auto& make : others) {
    const Graph before = make(), after = fuse_head(before);
    EXPECT_EQ(count(after, "linear_cross_entropy"), 0) << &make - others;
    EXPECT_EQ(after.nodes().size(), before.nodes().size());
  }
}

TEST(FuseHead, IsSlicedByRows) {
  Net net;
  const Graph graph = fuse_head(plain(net));
  const SliceAnalysis slices = analyze_slices(graph);
  for (const Node& node : graph.nodes())
    for (size_t o = 0; node.op->name == std::string("linear_cross_entropy") && o < node.outputs.size(); ++o)
      EXPECT_EQ(slices.values[static_cast<size_t>(node.id)][o], Sliced::batch) << o;
}

}  // namespace
}  // namespace perigee
