// Order constraints of a plan on cuDNN's batch norms, with the fake of cuDNN (PERIGEE_SHIM_LIBRARIES).
#include <gtest/gtest.h>

#include <cstring>

#include "src/device/cuda_module.h"
#include "src/graph/tuning.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

// Two batch norms on each of two ways that know nothing of each other.
Model two_ways() {
  const std::string conv = R"({"type": "conv2d", "out": 8, "kernel": 1, "bias": false})",
                    norm = R"({"type": "batchnorm", "activation": "relu"})";
  const std::string way = conv + "," + norm + "," + conv + R"(, "batchnorm")";
  ModelSpec spec;
  spec.network =
      Json::parse(R"({"type": "sequential", "layers": [{"type": "residual", "activation": "relu", "layers": [)" + way +
                      R"(], "shortcut": [)" + way + R"(]}, {"type": "global_pool", "kind": "average"}, {"type": "dense", "out": 4}]})",
                  "network");
  spec.inputs = {{"image", Type{Dtype::f32, Shape{8, 6, 6}}}};
  spec.target = {"label", Type{Dtype::i64, Shape{}}};
  spec.classes = 4;
  spec.loss = Json("cross_entropy");
  return Model(spec);
}

bool is_norm(const PlanStep& step) { return std::string_view(step.op->name).starts_with("batch_norm"); }

// At addresses that are never touched.
std::vector<StepAccess> accesses_of(const std::shared_ptr<const Plan>& plan) {
  uintptr_t next = uintptr_t{1} << 32;
  const auto place = [&](size_t bytes) { return reinterpret_cast<void*>(std::exchange(next, next + (bytes + 255) / 256 * 256)); };
  std::vector<void*> parameters, states, outputs, tables;
  for (auto* places : {&parameters, &states, &outputs, &tables}) {
    const size_t count = places == &parameters ? plan->parameters().size()
                         : places == &states   ? plan->states().size()
                         : places == &outputs  ? plan->external_outputs().size()
                                               : plan->tables().size();
    for (size_t i = 0; i < count; ++i) places->push_back(place(1 << 16));
  }
  PlanRun run(plan, {.arena = static_cast<std::byte*>(place(plan->arena_bytes())),
                     .parameters = parameters,
                     .states = states,
                     .outputs = outputs,
                     .tables = tables,
                     .packed = static_cast<std::byte*>(place(plan->packed_bytes()))});
  for (size_t i = 0; i < plan->inputs().size(); ++i) run.set_input(static_cast<int>(i), place(1 << 20));
  std::vector<StepAccess> accesses;
  for (size_t i = 0; i < plan->steps().size(); ++i) accesses.push_back(run.access(i));
  return accesses;
}

// Pairs of batch norms of which neither must wait for the other.
int free_pairs(const std::shared_ptr<const Plan>& plan, const char* kernel) {
  const std::vector<StepAccess> accesses = accesses_of(plan);
  int free = 0;
  for (size_t later = 0; later < accesses.size(); ++later) {
    if (!is_norm(plan->steps()[later])) continue;
    EXPECT_STREQ(plan->steps()[later].kernel->name, kernel);
    for (size_t earlier = 0; earlier < later; ++earlier)
      free += is_norm(plan->steps()[earlier]) && !must_follow(accesses[earlier], accesses[later]);
  }
  return free;
}

// Its blocks wait for each other; ours do not.
TEST(LibraryOrder, BatchNormsOfCudnnNeverRunAtOnce) {
  std::string why;
  const CudaModule* const module = cuda_module(&why);
  if (module == nullptr || std::getenv("PERIGEE_SHIM_LIBRARIES") == nullptr) GTEST_SKIP() << "without the fake of cuDNN";
  ASSERT_EQ(module->library(CudaLibrary::cudnn).why, nullptr);
  const Model model = two_ways();
  const auto ours = PlanSet(model, PlanSet::Kind::training, Backend::cuda).plan(4);
  EXPECT_GT(free_pairs(ours, "columns"), 0);
  Tuning tuning;
  for (const PlanStep& step : ours->steps())
    if (is_norm(step)) tuning.set(tuning.key_of(step), "cudnn");
  EXPECT_EQ(free_pairs(PlanSet(model, PlanSet::Kind::training, Backend::cuda, &tuning).plan(4), "cudnn"), 0);
}

}  // namespace
}  // namespace perigee
