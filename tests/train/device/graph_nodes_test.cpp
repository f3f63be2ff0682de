// How many nodes the graph of a step has, and how its pieces depend on each other: with the CUDA module's own kernels on the host, which are
// captured but do nothing here (PERIGEE_SHIM_SKIP).
#include <gtest/gtest.h>

#include <algorithm>

#include "src/device/cuda_module.h"
#include "src/device/device_work.h"
#include "src/train/device/device_model.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

std::string conv(int channels, int kernel, const std::string& more) {
  return R"({"type": "conv2d", "out": )" + std::to_string(channels) + R"(, "kernel": )" + std::to_string(kernel) + more + "}";
}

std::string resnet20() {
  const std::string plain = R"(, "padding": 1, "bias": false)", norm = R"({"type": "batchnorm", "activation": "relu"})";
  std::string layers = "[" + conv(16, 3, plain) + "," + norm;
  for (int stage = 0; stage < 3; ++stage)
    for (int index = 0; index < 3; ++index) {
      const int channels = 16 << stage;
      const std::string stride = R"(, "stride": )" + std::to_string(stage > 0 && index == 0 ? 2 : 1);
      layers += R"(, {"type": "residual", "activation": "relu", "layers": [)" + conv(channels, 3, plain + stride) + "," + norm + "," +
                conv(channels, 3, plain) + R"(, "batchnorm"])";
      if (stage > 0 && index == 0)
        layers +=
            R"(, "shortcut": {"type": "sequential", "layers": [)" + conv(channels, 1, R"(, "bias": false)" + stride) + R"(, "batchnorm"]})";
      layers += "}";
    }
  return layers + R"(, {"type": "global_pool", "kind": "average"}, {"type": "dense", "out": 10}])";
}

struct Case {
  const char* name;
  std::string network;
  int batch, most_nodes, most_in_line;
  const char* precision = "float32";
};

// The pieces of the plan alone, at addresses that are never touched.
std::vector<StepAccess> pieces_of(Trainer& trainer, int64_t batch) {
  PlanSet set(trainer.model(), PlanSet::Kind::training, Backend::cuda);
  const auto plan = set.plan(batch);
  uintptr_t next = uintptr_t{1} << 32;
  const auto place = [&](size_t bytes) { return reinterpret_cast<void*>(std::exchange(next, next + (bytes + 255) / 256 * 256)); };
  std::vector<void*> parameters, halves, states, outputs, tables;
  Params& params = trainer.model().params();
  const auto window = [&](const std::string& name) {
    return place(static_cast<size_t>(params.windows()[static_cast<size_t>(params.find(name))].elements) * 4);
  };
  for (const std::string& name : plan->parameters()) parameters.push_back(window(name)), halves.push_back(window(name));
  for (size_t i = 0; i < plan->states().size(); ++i) states.push_back(place(1 << 16));
  for (const std::string& name : plan->external_outputs()) outputs.push_back(window(name.substr(5)));
  for (const Tensor& table : plan->tables()) tables.push_back(place(table.bytes()));
  PlanRun run(plan, {.arena = static_cast<std::byte*>(place(plan->arena_bytes())),
                     .parameters = parameters,
                     .states = states,
                     .outputs = outputs,
                     .tables = tables,
                     .packed = static_cast<std::byte*>(place(plan->packed_bytes())),
                     .halves = halves});
  for (size_t i = 0; i < plan->inputs().size(); ++i) run.set_input(static_cast<int>(i), place(1 << 24));
  std::vector<StepAccess> accesses;
  for (size_t i = 0; i < plan->steps().size(); ++i) accesses.push_back(run.access(i));
  return accesses;
}

// How many pieces have to wait for the one before.
int longest_chain(const std::vector<StepAccess>& pieces) {
  std::vector<int> chain(pieces.size(), 1);
  for (size_t i = 0; i < pieces.size(); ++i)
    for (size_t before = 0; before < i; ++before)
      if (must_follow(pieces[before], pieces[i])) chain[i] = std::max(chain[i], chain[before] + 1);
  return *std::max_element(chain.begin(), chain.end());
}

class GraphNodes : public testing::TestWithParam<Case> {};

TEST_P(GraphNodes, AreFew) {
  const Case& of = GetParam();
  Job job = job_of(of.network);
  job.set("precision", "\"" + std::string(of.precision) + "\"");
  job.set("data.batch", std::to_string(of.batch));
  job.set("data.train.size", std::to_string(2 * of.batch));
  Trainer trainer(job, {.backend = Backend::cuda});
  trainer.step();
  std::string why;
  const CudaCounts counts = cuda_module(&why)->counts();
  const int64_t nodes = counts.captured_nodes, overlaps = counts.captured_overlaps;
  const std::vector<StepAccess> pieces = pieces_of(trainer, of.batch);
  const StepOrder order = order_steps(pieces, 4);
  const int chain = longest_chain(pieces);
  std::printf("%s: %d nodes, %d overlap; the plan's %zu steps on %d branches, %d in line, %d edges of memory used again\n", of.name,
              static_cast<int>(nodes), static_cast<int>(overlaps), order.places.size(), order.branches, chain, order.edges_of_reuse);
  EXPECT_LE(chain, of.most_in_line);
  EXPECT_EQ(overlaps, nodes - 1);  // in line, where the last one was captured: all are kernels of ours
  EXPECT_LE(nodes, of.most_nodes);
  EXPECT_GE(nodes, static_cast<int64_t>(order.places.size()));
}

INSTANTIATE_TEST_SUITE_P(Networks, GraphNodes,
                         testing::Values(Case{"lenet", kLenet, 32, 13, 7}, Case{"mlp", kMlp, 128, 10, 5},
                                         Case{"resnet20", resnet20(), 64, 210, 84}, Case{"resnet20_bf16", resnet20(), 64, 220, 93, "bf16"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace perigee
