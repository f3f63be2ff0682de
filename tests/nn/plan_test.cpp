// Every layer as it is trained: passes, plan and host kernels in f32 give what the interpreter gives for the plain graph, gradients of
// parameters included, and at most what layers are known to cost: whether a batch with them can be cut into slices.
#include <gtest/gtest.h>

#include <set>

#include "src/graph/passes/passes.h"
#include "src/graph/plan.h"
#include "src/nn/network.h"
#include "tests/nn/gradients.h"

namespace perigee {
namespace {

constexpr int64_t kBatch = 6;

std::vector<Shape> example_shapes(const LayerDef& layer) {
  const Json json = Json::parse(layer.example_input, layer.name);
  std::vector<Json> lists = json.as_array();
  if (lists.empty() || lists[0].is_int()) lists = {json};
  std::vector<Shape> shapes;
  for (const Json& list : lists) {
    std::vector<int64_t> dims;
    for (const Json& dim : list.as_array()) dims.push_back(dim.as_int());
    shapes.emplace_back(dims);
  }
  return shapes;
}

struct Trained {
  Graph graph;
  std::vector<std::string> external;
};

// The layer's forward pass, the mean square of its outputs, and the gradients of parameters. With `fused`, as Model does it.
void build(const LayerDef& layer, bool fused, Trained& trained) {
  const bool indices = std::string(layer.name) == "embedding";
  std::vector<NetworkInput> inputs;
  for (const Shape& shape : example_shapes(layer))
    inputs.push_back({"x" + std::to_string(inputs.size()), {indices ? Dtype::i64 : Dtype::f32, shape}});
  Graph forward;
  const Network network(Json(Json::Array{Json::parse(layer.example, layer.name)}), "example");
  const BuiltNetwork built = network.build(forward, inputs, {.batch = kBatch, .training = true});
  Value total;
  for (size_t i = 0; i < built.outputs.size(); ++i) {
    forward.output("output" + std::to_string(i), built.outputs[i]);
    std::vector<int64_t> axes;
    for (int d = 0; d < built.outputs[i].rank(); ++d) axes.push_back(d);
    const Value part = reduce_sum(square(built.outputs[i] - 0.3), axes);
    total = total ? total + part : part;
  }
  forward.output("total", total);
  trained.graph = fused ? fuse_forward(forward) : forward;
  Graph& graph = trained.graph;
  Value root;
  for (const NamedValue& output : graph.outputs())
    if (output.name == "total") root = Value(&graph, output.value);
  std::vector<Value> targets;
  std::vector<std::string> names;
  for (const Leaf& leaf : graph.leaves())
    if (leaf.kind != LeafKind::state && graph.type(leaf.value).dtype == Dtype::f32) {
      targets.push_back(Value(&graph, leaf.value));
      names.push_back((leaf.kind == LeafKind::parameter ? "grad:" : "input:") + leaf.name);
    }
  const std::vector<Value> flows = gradients(graph, root, ones_like(root), targets);
  for (size_t i = 0; i < flows.size(); ++i) {
    if (!flows[i]) continue;
    graph.output(names[i], flows[i]);
    if (names[i].starts_with("grad:")) trained.external.push_back(names[i]);
  }
  if (fused) graph = fuse_backward(graph);
}

std::map<std::string, Tensor> run_plan(const Trained& trained, std::map<std::string, Tensor>& leaves) {
  const auto plan = Plan::compile(trained.graph, {.external_outputs = trained.external});
  Storage arena(plan->arena_bytes());
  std::memset(arena.data(), 0xff, arena.bytes());
  std::vector<void*> parameters, states, outputs;
  std::map<std::string, Tensor> results;
  for (const std::string& name : plan->parameters()) parameters.push_back(leaves.at(name).view().data);
  for (const std::string& name : plan->states()) states.push_back(leaves.at(name).view().data);
  for (const std::string& name : plan->external_outputs())
    for (const NamedValue& output : trained.graph.outputs())
      if (output.name == name)
        outputs.push_back(results.emplace(name, Tensor(Dtype::f32, trained.graph.type(output.value).shape)).first->second.view().data);
  PlanRun run(plan, {arena.data(), parameters, states, outputs});
  for (size_t i = 0; i < plan->inputs().size(); ++i) run.set_input(static_cast<int>(i), leaves.at(plan->inputs()[i]).view().data);
  run.pack();
  run.run(nullptr, StepInfo{.training = true});
  for (const NamedValue& output : trained.graph.outputs())
    if (!results.contains(output.name)) results.emplace(output.name, contiguous_copy(run.output(output.name)));
  return results;
}

TEST(LayerPlan, HostKernelsTrainEveryExampleAsTheInterpreterDoes) {
  for (const LayerDef* layer : all_layers()) {
    SCOPED_TRACE(layer->name);
    try {
      Trained plain, fused;
      build(*layer, false, plain);
      build(*layer, true, fused);
      std::mt19937_64 random(9);
      std::map<std::string, Tensor> leaves;
      for (const Leaf& leaf : plain.graph.leaves()) {
        const Type& type = plain.graph.type(leaf.value);
        const bool indices = type.dtype == Dtype::i64;
        leaves[leaf.name] =
            case_values(indices ? index(type.shape, 3) : real(type.shape, leaf.kind == LeafKind::state ? 0.5 : -2, 2), false, random);
      }
      Interpreter truth(plain.graph);
      truth.step.training = true;
      truth.run(leaves);
      const std::map<std::string, Tensor> results = run_plan(fused, leaves);
      for (const NamedValue& output : plain.graph.outputs()) {
        const Tensor &expected = truth[Value(&plain.graph, output.value)], &got = results.at(output.name);
        ASSERT_EQ(got.shape(), expected.shape());
        double scale = 1e-2;  // a gradient that is zero but for rounding
        for (int64_t i = 0; i < got.elements(); ++i) scale = std::max(scale, std::abs(double{expected.data<float>()[i]}));
        for (int64_t i = 0; i < got.elements(); ++i)
          ASSERT_NEAR(got.data<float>()[i], expected.data<float>()[i], 2e-4 * scale) << output.name << " element " << i;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

// A layer that mixes examples makes every network with it run on one thread, so none may do so unnoticed.
TEST(LayerPlan, BatchesWithTheseLayersCanBeCutIntoSlices) {
  const std::set<std::string> whole_batch = {"locally_connected1d", "locally_connected2d"};
  for (const LayerDef* layer : all_layers()) {
    Trained trained;
    build(*layer, true, trained);
    const SliceAnalysis slices = analyze_slices(trained.graph);
    // The total over the batch is the test's own; what counts are the parameters' gradients.
    for (const NamedValue& output : trained.graph.outputs())
      if (output.name.starts_with("grad:")) {
        EXPECT_EQ(slices.values[static_cast<size_t>(output.value.node)][static_cast<size_t>(output.value.output)] != Sliced::partial,
                  whole_batch.contains(layer->name))
            << layer->name << ": " << output.name << "; " << slices.reason;
      }
  }
}

}  // namespace
}  // namespace perigee
