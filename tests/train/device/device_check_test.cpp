// `--device check:cuda,ref` on the module of the shim, whose kernels of ops are the reference's but for the one that a test spoils.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/ops/linalg.h"
#include "src/graph/plan_check.h"
#include "src/model/device/device_choice.h"
#include "tests/cuda/shim/counters.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

TrainerOptions checked(const char* device) {
  TrainerOptions options;
  options.use(choose_device(device, "test", 0, 1));
  return options;
}

// Kernels of the op are wrong.
struct Spoilt {
  explicit Spoilt(const char* op) { spoil(op); }
  ~Spoilt() { spoil(""); }
  static void spoil(const char* op) {
    static void* const module = dlopen(std::getenv("PERIGEE_CUDA_MODULE"), RTLD_NOW | RTLD_LOCAL);
    reinterpret_cast<void (*)(const char*)>(dlsym(module, "shim_spoil"))(op);
  }
};

std::string step_error(Trainer& trainer) {
  try {
    trainer.step();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(DeviceCheck, TrainsWithTheSameBitsWhereEveryKernelAgrees) {
  for (const Job& job : {noisy_job(), noisy_job(R"(, "precision": "bf16")"), meeting_job()}) {
    Trainer plain(job, {.backend = Backend::cuda}), beside(job, checked("check:cuda,ref"));
    for (int step = 0; step < 5; ++step) EXPECT_EQ(plain.step().loss, beside.step().loss) << step;
    EXPECT_EQ(bits_of(plain), bits_of(beside));
  }
}

TEST(DeviceCheck, NamesTheKernelThatIsWrong) {
  for (const char* op : {"conv2d_pool", "linear", "cross_entropy_grad", "conv2d_pool_grad_weight", "linear_cross_entropy"}) {
    const bool head = std::string_view(op) == "linear_cross_entropy";
    Trainer trainer(head ? head_job() : lenet_job(), checked("check:cuda:0,ref"));
    trainer.step();
    const Spoilt wrong(op);
    const std::string told = step_error(trainer);
    for (const char* part : {"step 2", "disagrees with the reference", "cuda:0", "is off by", "stand-in"})
      EXPECT_NE(told.find(part), std::string::npos) << "'" << part << "' in: " << told;
    EXPECT_NE(told.find("op '" + std::string(op) + "'"), std::string::npos) << told;
  }
}

// The host's linear algebra is LAPACK, which may not be there when the GPU's own is.
TEST(DeviceCheck, SaysWhatHasNoReference) {
  Graph graph;
  const Value x = graph.input("x", {Dtype::f32, Shape{2, 3, 3}});
  graph.set_scope("layer 'solver'");
  graph.output("y", graph.apply("inv", {x}));
  const auto plan = Plan::compile(graph, {.backend = Backend::cuda});
  ASSERT_EQ(plan->steps().size(), 1u);
  EXPECT_EQ(PlanChecker(*plan).unchecked(), "");
  Plan without = *plan;
  auto* const params = reinterpret_cast<LinalgParams*>(const_cast<std::byte*>(without.steps()[0].params.data()));
  params->missing = [] { return "there is no LAPACK"; };
  EXPECT_EQ(PlanChecker(without).unchecked(), "layer 'solver', op 'inv' (there is no LAPACK)");
}

TEST(DeviceCheck, SaysWhatHasNoKernelThere) {
  Graph graph;
  graph.set_scope("layer 'pool'");
  const Json attrs = Json::parse(R"({"kind": "average", "kernel": [2, 2], "stride": [2, 2]})", "attrs");
  graph.output("y", graph.apply("pool2d", {graph.input("x", {Dtype::i64, {1, 1, 4, 4}})}, attrs));
  std::string text;
  try {
    Plan::compile(graph, {.backend = Backend::cuda});
  } catch (const Error& error) {
    text = error.what();
  }
  for (const char* part :
       {"layer 'pool': no CUDA kernel computes op 'pool2d'; got i64[1x1x4x4] -> i64[1x1x2x2]", "train with device = \"cpu\""})
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
}

TEST(DeviceCheck, IsChosenByWhatAUserWrites) {
  const TrainerOptions first = checked("check:cuda:0,ref"), host = checked("check:cpu,ref"), none = checked("cuda:0");
  EXPECT_TRUE(first.check && first.backend == Backend::cuda && first.devices[0] == 0);
  EXPECT_TRUE(host.check && host.backend == Backend::cpu);
  EXPECT_FALSE(none.check);
  for (const char* wrong : {"check:ref,ref", "check:,ref", "check:cuda", "check:cuda:x,ref", "check:auto,ref"})
    EXPECT_THROW(checked(wrong), Error) << wrong;
}

}  // namespace
}  // namespace perigee
