// Every layer as it is trained: passes, plan and host kernels in f32 give what the interpreter gives for the plain graph, gradients of
// parameters included, and at most what layers are known to cost: whether a batch with them can be cut into slices.
#include <gtest/gtest.h>

#include <set>

#include "tests/nn/trained_layer.h"

namespace perigee {
namespace {

std::map<std::string, Tensor> run_plan(const TrainedLayer& trained, std::map<std::string, Tensor>& leaves) {
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
      expect_as_interpreted(*layer, run_plan);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

// A layer that mixes examples makes every network with it run on one thread, so none may do so unnoticed.
TEST(LayerPlan, BatchesWithTheseLayersCanBeCutIntoSlices) {
  const std::set<std::string> whole_batch = {"locally_connected1d", "locally_connected2d"};
  for (const LayerDef* layer : all_layers()) {
    TrainedLayer trained;
    build_trained(*layer, true, trained);
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
