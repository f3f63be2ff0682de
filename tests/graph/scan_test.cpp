// Loops against the same steps written out (passes/unroll_scan.h), which are ordinary ops: values, gradients, gradients of gradients, slices.
#include <gtest/gtest.h>

#include <random>

#include "src/core/error.h"
#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "src/graph/passes/passes.h"
#include "src/graph/passes/unroll_scan.h"
#include "src/graph/plan.h"
#include "src/graph/scan.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

using ScanLeaves = std::map<std::string, Tensor>;

struct Options {
  int64_t examples = 3, length = 7;
  bool reverse = false;
  int64_t recompute = 0;
  bool keep = false, draws = false;
};

Type f64(std::vector<int64_t> dims) { return {Dtype::f64, Shape(std::move(dims))}; }

Value drawn_like(Value x) { return x.graph().apply("random_uniform", {x}, Json(Json::Object{{"low", 0.5}, {"high", 1.5}, {"stream", 3}})); }

// A recurrent net that also looks at a context by example and counts its steps; the loss reads its results, its last state and its first.
Value recurrent_loss(Graph& graph, const Options& options) {
  const Value x = graph.input("x", f64({options.examples, options.length, 3})),
              context = graph.input("context", f64({options.examples, 4}));
  const Value w = graph.parameter("w", f64({3, 4})), u = graph.parameter("u", f64({4, 4})), h0 = graph.parameter("h0", f64({4}));
  const Value none = reshape(graph.apply("full_like", {context}, Json(Json::Object{{"value", 0.5}})), Shape{options.examples, 4});
  ScanBody body(graph,
                {.carries = {h0, none}, .steps = {x}, .reverse = options.reverse, .recompute = options.recompute, .keep = options.keep});
  const Value h = body.carries()[0], sum = body.carries()[1];
  Value next = tanh(matmul(body.steps()[0], body.outside(w)) + matmul(h, body.outside(u)) + body.outside(context) * sum);
  if (options.draws) next = next * drawn_like(next);
  const ScanResults made = body.finish({.carries = {next, sum + square(next)}, .results = {next * sum, reduce_sum(next, {1})}});
  const Value all = reduce_sum(made.results[0], {1, 2}) + reduce_sum(square(made.results[1]), {1}) + reduce_sum(made.carries[1], {1});
  return reshape(all, Shape{options.examples});
}

ScanLeaves scan_leaves(const Graph& graph) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, 0.5);
  ScanLeaves leaves;
  for (const char* name : {"x", "context", "w", "u", "h0"})
    for (const Leaf& leaf : graph.leaves())
      if (leaf.name == name) {
        Tensor tensor(Dtype::f64, graph.type(leaf.value).shape);
        for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<double>()[i] = normal(random);
        leaves.emplace(name, tensor);
      }
  return leaves;
}

std::vector<Value> parameters_of(Graph& graph) {
  std::vector<Value> targets;
  for (const char* name : {"w", "u", "h0", "context", "x"})
    for (const Leaf& leaf : graph.leaves())
      if (leaf.name == name) targets.push_back(Value(&graph, leaf.value));
  return targets;
}

void add_scan_gradients(Graph& graph, Value loss, const std::string& prefix) {
  const std::vector<Value> targets = parameters_of(graph);
  const std::vector<Value> flows = gradients(graph, loss, ones_like(loss), targets);
  for (size_t i = 0; i < targets.size(); ++i) {
    ASSERT_TRUE(static_cast<bool>(flows[i])) << i;
    graph.output(prefix + std::to_string(i), flows[i]);
  }
}

// The sum of the squares of the first gradients: differentiating it differentiates the gradient's loop.
Value squares_of_gradients(Graph& graph, Value loss) {
  Value sum;
  for (const Value& flow : gradients(graph, loss, ones_like(loss), parameters_of(graph))) {
    std::vector<int64_t> axes(static_cast<size_t>(flow.rank()));
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
    const Value each = reduce_sum(square(flow), axes);
    sum = sum ? sum + each : each;
  }
  return sum;
}

std::map<std::string, Tensor> run_scan(const Graph& graph, ScanLeaves leaves, Backend backend) {
  PlanOptions options{.backend = backend};
  for (const NamedValue& output : graph.outputs()) options.external_outputs.push_back(output.name);
  const auto plan = Plan::compile(graph, options);
  Storage arena(plan->arena_bytes());
  std::memset(arena.data(), 0xff, arena.bytes());  // what is read before it was written shows as NaN
  std::vector<void*> parameters, outputs;
  std::map<std::string, Tensor> results;
  for (const std::string& name : plan->parameters()) parameters.push_back(leaves.at(name).view().data);
  for (const NamedValue& output : graph.outputs())
    outputs.push_back(results.emplace(output.name, Tensor(Dtype::f64, graph.type(output.value).shape)).first->second.view().data);
  PlanRun run(plan, {arena.data(), parameters, {}, outputs});
  for (size_t i = 0; i < plan->inputs().size(); ++i) run.set_input(static_cast<int>(i), leaves.at(plan->inputs()[i]).view().data);
  run.enable_check();
  const StepInfo step{.training = true};
  for (int pass = 0; pass < 2; ++pass) {  // the second finds memory as the first has left it
    run.pack();
    run.run(nullptr, step);
  }
  EXPECT_EQ(run.check_failure(), "");
  return results;
}

void expect_same(const std::map<std::string, Tensor>& got, const std::map<std::string, Tensor>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    for (int64_t i = 0; i < tensor.elements(); ++i)
      ASSERT_NEAR(got.at(name).data<double>()[i], tensor.data<double>()[i], tolerance * (1 + std::abs(tensor.data<double>()[i])))
          << name << " " << i;
}

std::map<std::string, Tensor> interpreted(const Graph& graph, const ScanLeaves& leaves) {
  Interpreter interpreter(graph);
  interpreter.run(leaves);
  std::map<std::string, Tensor> results;
  for (const NamedValue& output : graph.outputs())
    results.emplace(output.name, contiguous_copy(interpreter[Value(const_cast<Graph*>(&graph), output.value)].view()));
  return results;
}

class Scan : public testing::TestWithParam<Options> {};

TEST_P(Scan, AgreesWithItsStepsWrittenOut) {
  Graph graph;
  const Value loss = recurrent_loss(graph, GetParam());
  graph.output("loss", loss);
  const ScanLeaves leaves = scan_leaves(graph);
  Graph written_out = unroll_scans(graph);
  for (const Node& node : written_out.nodes()) ASSERT_FALSE(node.op->loop);
  add_scan_gradients(written_out, Value(&written_out, written_out.outputs()[0].value), "grad");
  add_scan_gradients(graph, loss, "grad");
  const auto expected = interpreted(written_out, leaves);
  for (const Backend backend : {Backend::ref, Backend::cpu}) expect_same(run_scan(fuse_backward(graph), leaves, backend), expected, 1e-12);
}

TEST_P(Scan, CanBeDifferentiatedTwice) {
  Graph graph;
  const Value loss = recurrent_loss(graph, GetParam());
  graph.output("loss", loss);
  const ScanLeaves leaves = scan_leaves(graph);
  Graph written_out = unroll_scans(graph);
  add_scan_gradients(graph, squares_of_gradients(graph, loss), "second");
  const Value same = Value(&written_out, written_out.outputs()[0].value);
  add_scan_gradients(written_out, squares_of_gradients(written_out, same), "second");
  expect_same(run_scan(fuse_backward(graph), leaves, Backend::cpu), interpreted(written_out, leaves), 1e-11);
}

INSTANTIATE_TEST_SUITE_P(Loops, Scan,
                         testing::Values(Options{}, Options{.reverse = true}, Options{.length = 1}, Options{.examples = 1},
                                         Options{.recompute = 3}, Options{.length = 8, .recompute = 4},
                                         Options{.reverse = true, .recompute = 2}, Options{.length = 6, .reverse = true, .recompute = 100},
                                         Options{.keep = true}, Options{.reverse = true, .keep = true}, Options{.draws = true},
                                         Options{.recompute = 3, .draws = true}, Options{.reverse = true, .keep = true, .draws = true}));

// Each step has numbers of its own, those of one draw for all steps.
TEST(ScanDraws, AreThoseOfOneDrawOfAllSteps) {
  for (const int64_t recompute : {0, 2}) {
    Graph graph;
    const Value h = graph.input("h0", f64({3, 4})), all = graph.input("x", f64({3, 5, 4}));
    ScanBody body(graph, {.carries = {h}, .length = 5, .recompute = recompute});
    const Value drawn = drawn_like(body.carries()[0]);
    graph.output("drawn", body.finish({.carries = {body.carries()[0] + drawn}, .results = {drawn}}).results[0]);
    graph.output("expected", drawn_like(all));
    const auto results = interpreted(unroll_scans(graph), scan_leaves(graph));
    const double *got = results.at("drawn").data<double>(), *expected = results.at("expected").data<double>();
    for (int i = 0; i < 60; ++i) EXPECT_EQ(got[i], expected[i]) << i;
    EXPECT_NE(got[0], got[4]) << "of two steps";
  }
}

TEST(ScanPlan, KeptStepsAreNotComputedAgain) {
  const auto flops = [](bool keep) {
    Graph graph;
    const Value loss = recurrent_loss(graph, {.examples = 16, .length = 64, .keep = keep});
    add_scan_gradients(graph, loss, "grad");
    return Plan::compile(fuse_backward(graph), {})->flops();
  };
  EXPECT_LT(flops(true), 0.85 * flops(false));
}

TEST(ScanSlices, GradientsOfWhatIsSharedAreSumsOverSlices) {
  Graph graph;
  const Value loss = recurrent_loss(graph, {});
  const std::vector<Value> targets = parameters_of(graph);
  const std::vector<Value> flows = gradients(graph, loss, ones_like(loss), targets);
  const SliceAnalysis slices = analyze_slices(graph);
  EXPECT_TRUE(slices.sliceable) << slices.reason;
  const auto sliced = [&](Value value) {
    return slices.values[static_cast<size_t>(value.id().node)][static_cast<size_t>(value.id().output)];
  };
  EXPECT_EQ(sliced(loss), Sliced::batch);
  for (size_t i = 0; i < flows.size(); ++i) EXPECT_EQ(sliced(flows[i]), i < 3 ? Sliced::partial : Sliced::batch) << i;
}

TEST(ScanSlices, StepThatMixesExamplesTakesTheBatchWhole) {
  Graph graph;
  const Value x = graph.input("x", f64({2, 5, 3})), h = graph.input("h", f64({2, 3}));
  ScanBody body(graph, {.carries = {h}, .steps = {x}});
  const Value last = body.finish({.carries = {body.carries()[0] + reduce_sum(body.steps()[0], {0}, true)}}).carries[0];
  const SliceAnalysis slices = analyze_slices(graph);
  EXPECT_FALSE(slices.sliceable);
  EXPECT_EQ(slices.values[static_cast<size_t>(last.id().node)][static_cast<size_t>(last.id().output)], Sliced::mixed);
}

// On a GPU the plan grows with the steps; a loop of the host does not.
TEST(ScanPlan, DoesNotGrowWithTheSteps) {
  const auto steps = [](int64_t length) {
    Graph graph;
    const Value loss = recurrent_loss(graph, {.length = length});
    add_scan_gradients(graph, loss, "grad");
    return Plan::compile(fuse_backward(graph), {})->steps().size();
  };
  EXPECT_EQ(steps(5), steps(500));
}

TEST(ScanPlan, RecomputedSegmentsKeepLessMemory) {
  const auto bytes = [](int64_t recompute) {
    Graph graph;
    const Value loss = recurrent_loss(graph, {.examples = 16, .length = 1024, .recompute = recompute});
    add_scan_gradients(graph, loss, "grad");
    return Plan::compile(fuse_backward(graph), {})->arena_bytes();
  };
  const size_t carried = 1024 * 16 * (4 + 4) * sizeof(double);
  EXPECT_LT(bytes(32) + carried * 8 / 10, bytes(0));
}

std::string scan_refusal(const std::function<ScanStep(ScanBody&)>& step, ScanOperands operands, Graph& graph) {
  try {
    ScanBody body(graph, operands);
    body.finish(step(body));
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ScanRefusal, SaysWhatDoesNotFit) {
  Graph graph;
  const Value x = graph.input("x", f64({2, 5, 3})), y = graph.input("y", f64({2, 4, 3})), flat = graph.input("flat", f64({2}));
  const Value h = graph.input("h", f64({2, 3})), w = graph.parameter("w", f64({3}));
  const auto same = [](ScanBody& body) { return ScanStep{.carries = body.carries()}; };
  const auto contains = [](const std::string& text, const char* part) { EXPECT_NE(text.find(part), std::string::npos) << text; };
  contains(scan_refusal(same, {.carries = {h}, .steps = {flat}}, graph), "a sequence has no steps");
  contains(scan_refusal(same, {.carries = {h}, .steps = {x, y}}, graph), "sequences of different lengths");
  contains(scan_refusal(same, {.carries = {h}}, graph), "expected a sequence, or how many steps there are");
  contains(scan_refusal(same, {.carries = {w}, .length = 4}, graph), "expected a sequence, or a first carried value, of each example");
  contains(scan_refusal([](ScanBody& body) { return ScanStep{.carries = {reduce_sum(body.carries()[0], {1})}}; },
                        {.carries = {h}, .steps = {x}}, graph),
           "what the step carries on has another type than what it was given");
  contains(scan_refusal([](ScanBody&) { return ScanStep{}; }, {.carries = {h}, .steps = {x}}, graph),
           "the step carries on another number of values");
  contains(scan_refusal([&](ScanBody& body) { return ScanStep{.carries = body.carries(), .results = {body.outside(w)}}; },
                        {.carries = {h}, .steps = {x}}, graph),
           "a result of the step does not depend on the examples");
  contains(scan_refusal(
               [](ScanBody& body) {
                 const Json options(Json::Object{{"per", "step"}, {"mean", 0}, {"stddev", 1}});
                 return ScanStep{.carries = {body.graph().apply("random_normal", {body.carries()[0]}, options)}};
               },
               {.carries = {h}, .steps = {x}}, graph),
           "draw numbers, or normalise, before the loop and read the result step by step");
  EXPECT_EQ(scan_refusal(same, {.carries = {h}, .length = 4}, graph), "no error");
}

TEST(ScanRefusal, OfWhatIsTooLongToBeWrittenOut) {
  Graph graph;
  const Value h = graph.input("h", f64({1, 1}));
  ScanBody body(graph, {.carries = {h}, .length = 1'000'000});
  body.finish({.carries = {body.carries()[0] + 1}});
  try {
    unroll_scans(graph);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("shorten the sequences, or train with device = \"cpu\", where a loop stays one"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace perigee
