// Plans against the interpreter of tests/graph: the same graphs, compiled for host kernels and for ref, must give the same values
// whatever was fused, aliased, reused in place or reordered in memory.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "src/graph/passes/passes.h"
#include "src/graph/plan.h"
#include "src/graph/plan_check.h"
#include "src/graph/plan_compiler.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

using Leaves = std::map<std::string, Tensor>;

Json ints(std::initializer_list<int64_t> values) { return ints_json(std::vector<int64_t>(values)); }

Leaves random_leaves(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Leaves leaves;
  for (const Leaf& leaf : graph.leaves()) {
    const Type& type = graph.type(leaf.value);
    Tensor tensor(type.dtype, type.shape);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      if (type.dtype == Dtype::f32) tensor.data<float>()[i] = normal(random);
      else tensor.data<int64_t>()[i] = static_cast<int64_t>(random() % 5);
    leaves.emplace(leaf.name, tensor);
  }
  return leaves;
}

// The outputs of a plan, external ones included, in canonical order.
std::map<std::string, Tensor> run_plan(const Graph& graph, Leaves leaves, PlanOptions options, bool accumulate = false) {
  const auto plan = Plan::compile(graph, options);
  Storage arena(plan->arena_bytes());
  std::memset(arena.data(), 0xff, arena.bytes());  // what is read before it was written shows as NaN
  std::vector<void*> parameters, states, outputs;
  std::map<std::string, Tensor> results;
  for (const std::string& name : plan->parameters()) parameters.push_back(leaves.at(name).view().data);
  for (const std::string& name : plan->states()) states.push_back(leaves.at(name).view().data);
  for (const std::string& name : plan->external_outputs())
    for (const NamedValue& output : graph.outputs())
      if (output.name == name)
        outputs.push_back(
            results.emplace(name, Tensor(graph.type(output.value).dtype, graph.type(output.value).shape)).first->second.view().data);
  PlanRun run(plan, {arena.data(), parameters, states, outputs});
  for (size_t i = 0; i < plan->inputs().size(); ++i) run.set_input(static_cast<int>(i), leaves.at(plan->inputs()[i]).view().data);
  run.enable_check();
  run.pack();
  const StepInfo step{.training = true};
  run.run(nullptr, step);
  if (accumulate) run.run(nullptr, step, true);
  EXPECT_EQ(run.check_failure(), "");
  for (const NamedValue& output : graph.outputs())
    if (!results.contains(output.name)) results.emplace(output.name, contiguous_copy(run.output(output.name)));
  return results;
}

void expect_near(const Tensor& got, const Tensor& expected, const std::string& what, double factor = 1) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  double scale = 1e-3;
  for (int64_t i = 0; i < got.elements(); ++i) scale = std::max(scale, std::abs(factor * static_cast<double>(expected.data<float>()[i])));
  for (int64_t i = 0; i < got.elements(); ++i)
    ASSERT_NEAR(got.data<float>()[i], factor * static_cast<double>(expected.data<float>()[i]), 1e-4 * scale) << what << " element " << i;
}

// Every output, for host and reference kernels, before and after the passes.
void expect_plans_agree(Graph& graph, uint64_t seed) {
  const Leaves leaves = random_leaves(graph, seed);
  Interpreter truth(graph);
  truth.run(leaves);
  std::vector<std::string> external;
  for (const NamedValue& output : graph.outputs())
    if (output.name.starts_with("grad:")) external.push_back(output.name);
  for (const bool fused : {false, true}) {
    const Graph compiled = fused ? fuse_backward(graph) : graph;
    for (const Backend backend : {Backend::ref, Backend::cpu}) {
      for (const bool twice : {false, true}) {
        auto results = run_plan(compiled, leaves, {.backend = backend, .external_outputs = external}, twice);
        for (const NamedValue& output : graph.outputs()) {
          const bool added = twice && output.name.starts_with("grad:");
          expect_near(results.at(output.name), truth[Value(&graph, output.value)], output.name + (fused ? " fused" : ""), added ? 2 : 1);
        }
      }
    }
  }
}

void add_gradients(Graph& graph, Value loss) {
  std::vector<Value> targets;
  std::vector<std::string> names;
  for (const Leaf& leaf : graph.leaves())
    if (leaf.kind == LeafKind::parameter) {
      targets.push_back(Value(&graph, leaf.value));
      names.push_back(leaf.name);
    }
  const std::vector<Value> grads = gradients(graph, loss, ones_like(loss), targets);
  for (size_t i = 0; i < grads.size(); ++i)
    if (grads[i]) graph.output("grad:" + names[i], grads[i]);
}

TEST(Plan, ConvolutionsWithResidualMatchTheInterpreter) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {3, 3, 9, 7}});
  const Value w1 = graph.parameter("w1", {Dtype::f32, {6, 3, 3, 3}}), w2 = graph.parameter("w2", {Dtype::f32, {6, 6, 3, 3}});
  Json padded = Json::object();
  padded.set("padding", ints({1, 1, 1, 1}));
  const Value a = relu(graph.apply("conv2d", {x, w1}, padded));
  const Value b = graph.apply("conv2d", {a, w2}, padded);
  const Value sum = relu(a + b);
  const Value flat = reshape(sum, {3, 6 * 9 * 7});
  const Value w3 = graph.parameter("w3", {Dtype::f32, {6 * 9 * 7, 4}});
  const Value y = matmul(flat, w3);
  graph.output("y", y);
  add_gradients(graph, reduce_sum(square(y), {1}));
  expect_plans_agree(graph, 1);
}

TEST(Plan, WindowsAndTransposesMatchTheInterpreter) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {4, 6, 5}});
  const Value p = graph.parameter("p", {Dtype::f32, {6, 5}});
  const Value t = transpose(x * p, {0, 2, 1});
  Json range = Json::object();
  range.set("start", ints({0, 1, 2}));
  range.set("stop", ints({4, 4, 6}));
  const Value s = graph.apply("slice", {t}, range);
  const Value y = exp(tanh(s)) + s;
  graph.output("s", s);
  graph.output("y", y);
  add_gradients(graph, reduce_sum(reshape(y, {4, 12}), {1}));
  expect_plans_agree(graph, 2);
}

// A kernel gives the gradients of weight and bias at once. That of the bias is added to what earlier sub-batches gave; that of a weight which two
// layers use is a part of a sum, and must begin anew.
TEST(Plan, AWeightOfTwoLayersBesideABiasAddsUp) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {6, 5}});
  const Value w = graph.parameter("w", {Dtype::f32, {4, 5}}), b = graph.parameter("b", {Dtype::f32, {4}});
  const Value c = graph.parameter("c", {Dtype::f32, {5}});
  const Value code = tanh(graph.apply("linear", {x, w, b}));
  const Value y = graph.apply("linear", {code, transpose(w, {1, 0}), c});
  graph.output("y", y);
  add_gradients(graph, reduce_sum(square(y - x), {1}));
  expect_plans_agree(graph, 5);
}

TEST(Plan, InPlaceReuseKeepsValuesThatAreReadLater) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {8, 16}});
  const Value a = exp(x);   // read twice below
  const Value b = a * 2.0;  // must not overwrite a
  const Value c = sqrt(a) + b;
  const Value d = reshape(c, {8, 4, 4});  // a window keeps c's memory
  const Value e = c * c;
  graph.output("d", d);
  graph.output("e", e);
  expect_plans_agree(graph, 3);
}

// An LSTM over products that are made for it; `shown`: the products and the gates are read later.
Graph lstm_with_gradients(bool shown) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {3, 5, 16}}), w = graph.parameter("w", {Dtype::f32, {16}});
  const Value r = graph.parameter("r", {Dtype::f32, {4, 16}}), products = x * w;
  const std::vector<Value> results = graph.apply_all("lstm", std::vector<Value>{products, r}, Json::object());
  add_gradients(graph, reduce_sum(square(results[0]), {0, 1, 2}));
  if (shown) {
    graph.output("products", exp(products));
    graph.output("gates", exp(results[2]));
  }
  return graph;
}

TEST(Plan, GatesLieWhereNobodyNeedsTheOperandAnyMore) {
  for (const bool shown : {false, true}) {
    Graph graph = lstm_with_gradients(shown);
    expect_plans_agree(graph, 4);
    const auto plan = Plan::compile(graph, {.external_outputs = {"grad:w", "grad:r"}});
    int pairs = 0;
    for (const PlanStep& step : plan->steps()) {
      const InPlace pair = step.op->in_place;
      if (pair.operand < 0) continue;
      const Operand &in = step.in[static_cast<size_t>(pair.operand)], &out = step.out[static_cast<size_t>(pair.result)];
      EXPECT_EQ(in.index == out.index && in.offset == out.offset, !shown) << step.op->name;
      ++pairs;
    }
    EXPECT_EQ(pairs, 2);
  }
}

TEST(Plan, AnAssignedStateChangesOnlyOnCommit) {
  Graph graph;
  const Value count = graph.state("count", {Dtype::f32, {2}});
  graph.assign("count", count + 1.0);
  graph.output("y", count * 1.0);
  const auto plan = Plan::compile(graph, {});
  Storage arena(plan->arena_bytes());
  float state[2] = {3, 4};
  void* states[] = {state};
  PlanRun run(plan, {arena.data(), {}, states, {}});
  run.run(nullptr, StepInfo{});
  EXPECT_EQ(state[0], 3);
  run.commit_states();
  EXPECT_EQ(state[0], 4);
  EXPECT_EQ(state[1], 5);
}

TEST(Plan, BuffersThatLiveTogetherDoNotOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<ArenaBuffer> buffers(40);
    size_t all = 0;
    for (ArenaBuffer& buffer : buffers) {
      buffer.bytes = 64 * (1 + random() % 50);
      buffer.first_step = static_cast<int>(random() % 30);
      buffer.last_step = buffer.first_step + static_cast<int>(random() % 8);
      all += buffer.bytes;
    }
    const size_t total = place_buffers(buffers);
    EXPECT_LT(total, all);
    for (size_t i = 0; i < buffers.size(); ++i)
      for (size_t k = 0; k < i; ++k) {
        const ArenaBuffer &a = buffers[i], &b = buffers[k];
        const bool together = a.first_step <= b.last_step && b.first_step <= a.last_step;
        if (together) {
          ASSERT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
        }
        ASSERT_LE(a.offset + a.bytes, total);
      }
  }
}

TEST(Slices, GradientsOfParametersArePartialAndMixingIsNamed) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {4, 3}});
  const Value w = graph.parameter("w", {Dtype::f32, {3, 2}});
  const Value y = matmul(x, w);
  const Value grad = gradients(graph, y, ones_like(y), std::vector<Value>{w})[0];
  graph.output("grad:w", grad);
  SliceAnalysis slices = analyze_slices(graph);
  EXPECT_TRUE(slices.sliceable);
  EXPECT_EQ(slices.values[static_cast<size_t>(grad.id().node)][0], Sliced::partial);
  graph.set_scope("layer 'odd'");
  graph.output("mixed", square(reduce_sum(y, {0})));  // the square of a sum over all examples
  slices = analyze_slices(graph);
  EXPECT_FALSE(slices.sliceable);
  EXPECT_NE(slices.reason.find("layer 'odd'"), std::string::npos) << slices.reason;
}

TEST(PlanChecker, NamesTheLayerWhoseKernelIsWrong) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, {8, 64}});
  graph.set_scope("layer 'culprit'");
  graph.output("y", exp(x));
  const auto plan = Plan::compile(graph, {});
  ASSERT_EQ(plan->steps().size(), 1u);
  if (plan->steps()[0].kernel->backend == Backend::ref) GTEST_SKIP() << "this CPU runs no host kernel of exp";
  Storage arena(plan->arena_bytes());
  Tensor data(Dtype::f32, {8, 64});
  PlanRun run(plan, {.arena = arena.data()});
  run.set_input(0, data.view().data);
  PlanChecker checker(*plan);
  const KernelCall& call = run.call(0);
  checker.before(0, call);
  call.out[0].as<float>()[5] = 1.001F;  // exp(0) it is not
  checker.after(0, call);
  EXPECT_NE(checker.failure().find("layer 'culprit', op 'exp'"), std::string::npos) << checker.failure();
}

}  // namespace
}  // namespace perigee
