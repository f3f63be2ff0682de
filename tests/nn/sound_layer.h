// Layers of sound by the host's kernels, for tests that know what they should give.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "src/graph/plan.h"
#include "src/nn/network.h"
#include "tests/graph/interpreter.h"

namespace perigee {

// What `layer`, as JSON, makes of waveforms `x` [N, channels, steps] in f32; of example n the first lengths[n] steps are there, all without lengths.
inline Tensor heard_by(const std::string& layer, const Tensor& x, const std::vector<int64_t>& lengths = {}) {
  Graph graph;
  std::vector<NetworkInput> inputs{{"x", {Dtype::f32, Shape{x.shape()[1], x.shape()[2]}}}};
  if (!lengths.empty()) inputs.push_back({"n", {Dtype::i64, Shape{}}, FieldRole::length, "x"});
  const BuiltNetwork built =
      Network(Json::parse("[" + layer + "]", "test"), "net.json").build(graph, inputs, {.batch = x.shape()[0], .dtype = Dtype::f32});
  graph.output("y", built.outputs.at(0));
  const auto plan = Plan::compile(graph, {});
  Storage arena(plan->arena_bytes());
  std::memset(arena.data(), 0xff, arena.bytes());
  PlanRun run(plan, {arena.data(), {}, {}, {}});
  const Tensor counts = Tensor::from(Shape{x.shape()[0]}, lengths);
  for (size_t i = 0; i < plan->inputs().size(); ++i)
    run.set_input(static_cast<int>(i), plan->inputs()[i] == "x" ? x.view().data : counts.view().data);
  run.pack();
  run.run(nullptr, StepInfo{});
  return contiguous_copy(run.output("y"));
}

}  // namespace perigee
