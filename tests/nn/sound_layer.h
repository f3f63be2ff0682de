// Layers of sound by the host's kernels, for tests that know what they should give, and for the benchmark.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/graph/plan.h"
#include "src/nn/network.h"
#include "tests/graph/interpreter.h"

namespace perigee {

// One layer, as JSON, for waveforms [N, channels, steps] in f32; `lengths`: they come with the number of steps that are there, i64 [N].
class HeardBy {
 public:
  HeardBy(const std::string& layer, const Shape& shape, bool lengths) {
    Graph graph;
    std::vector<NetworkInput> inputs{{"x", {Dtype::f32, Shape{shape[1], shape[2]}}}};
    if (lengths) inputs.push_back({"n", {Dtype::i64, Shape{}}, FieldRole::length, "x"});
    const BuiltNetwork built =
        Network(Json::parse("[" + layer + "]", "test"), "net.json").build(graph, inputs, {.batch = shape[0], .dtype = Dtype::f32});
    graph.output("y", built.outputs.at(0));
    plan_ = Plan::compile(graph, {});
    arena_ = std::make_unique<Storage>(plan_->arena_bytes());
    std::memset(arena_->data(), 0xff, arena_->bytes());
    run_ = std::make_unique<PlanRun>(plan_, PlanRun::Memory{.arena = arena_->data()});
    run_->pack();
  }

  // The result lasts until the next call.
  View operator()(const Tensor& x, const Tensor& lengths = {}) {
    for (size_t i = 0; i < plan_->inputs().size(); ++i)
      run_->set_input(static_cast<int>(i), plan_->inputs()[i] == "x" ? x.view().data : lengths.view().data);
    run_->run(nullptr, StepInfo{});
    return run_->output("y");
  }

 private:
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Storage> arena_;
  std::unique_ptr<PlanRun> run_;
};

// The first lengths[n] steps of example n are there, all without lengths.
inline Tensor heard_by(const std::string& layer, const Tensor& x, const std::vector<int64_t>& lengths = {}) {
  HeardBy heard(layer, x.shape(), !lengths.empty());
  return contiguous_copy(heard(x, Tensor::from(Shape{x.shape()[0]}, lengths)));
}

}  // namespace perigee
