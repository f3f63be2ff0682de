// Steps whose graphs have branches, on the module of tests/cuda/shim: its graphs run their nodes in the order that is farthest from the
// captured one, so that an edge that is missing gives other numbers.
#include <gtest/gtest.h>

#include "src/device/device_work.h"
#include "tests/train/device/device_site.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

Job mlp_job(const std::string& more) {
  return job_of(R"([{"type": "dense", "out": 40, "activation": "relu"}, {"type": "dense", "out": 30, "activation": "tanh"},
                    {"type": "dense", "out": 10}])",
                more);
}

// Two blocks of ResNet-20, one of which brings its input to another size.
Job residual_job(const std::string& more) {
  const auto block = [](int channels, int stride, const std::string& shortcut) {
    const std::string conv = R"({"type": "conv2d", "out": )" + std::to_string(channels) + R"(, "kernel": 3, "padding": 1, "bias": false)";
    return R"({"type": "residual", "activation": "relu", "layers": [)" + conv + R"(, "stride": )" + std::to_string(stride) +
           R"(}, {"type": "batchnorm", "activation": "relu"}, )" + conv + R"(}, "batchnorm"])" + shortcut + "}";
  };
  return job_of(R"([{"type": "conv2d", "out": 4, "kernel": 3, "stride": 2, "bias": false}, {"type": "batchnorm", "activation": "relu"},)" +
                    block(4, 1, "") + "," +
                    block(6, 2, R"(, "shortcut": [{"type": "conv2d", "out": 6, "kernel": 1, "stride": 2, "bias": false}, "batchnorm"])") +
                    R"(, {"type": "global_pool", "kind": "average"}, {"type": "dense", "out": 10}])",
                more);
}

Job text_job(const std::string& more) {
  const Job job = job_of(R"([{"type": "embedding", "size": 40, "out": 6}, {"type": "layernorm", "over": "channels"}, {"type": "flatten"},
                             {"type": "dense", "out": 24, "activation": "gelu"}, {"type": "dense", "out": 40}])",
                         more);
  return on_text(job, "branches.txt", "the quick brown fox jumps over the lazy dog", 40, 6, 40);
}

struct BranchCase {
  const char* name;
  Job (*make)(const std::string&);
  const char* more;
};

const BranchCase kBranchCases[] = {
    {"lenet", &lenet_job, ""},
    {"mlp", &mlp_job, ""},
    {"residual", &residual_job, ""},
    {"text", &text_job, ""},
    {"gelu", &gelu_job, ""},
    {"noisy", &noisy_job, ""},
    {"half", &residual_job, R"(, "precision": "bf16")"},
    {"scaled", &lenet_job, R"(, "precision": "fp16", "clip": {"type": "norm", "threshold": 0.5})"},
    {"scaled_alone", &residual_job, R"(, "precision": "fp16")"},
    {"dropped_out", &noisy_job, R"(, "clip": {"type": "norm", "threshold": 0.5})"},
    {"clipped", &lenet_job, R"(, "clip": {"type": "layer_norm", "threshold": 0.1})"},
    {"constrained", &lenet_job, R"(, "constraint": [{"type": "max_norm", "max": 0.4}, {"type": "non_negative", "on": "bias"}])"},
    {"regularized", &mlp_job, R"(, "regularization": {"l1": 0.001, "l2": 0.01})"},
};

Bits after_steps(const BranchCase& of, const char* branches) {
  const Environment wanted("PERIGEE_CUDA_BRANCHES", branches);
  Trainer trainer(of.make(of.more), kDevice);
  for (int step = 0; step < 9; ++step) trainer.step();
  return bits_of(trainer);
}

class Branches : public testing::TestWithParam<BranchCase> {};

TEST_P(Branches, HaveTheBitsOfTheLine) {
  const Bits line = after_steps(GetParam(), "1");
  EXPECT_EQ(after_steps(GetParam(), "4"), line);
  for (const char* order : {"captured", "1", "2"}) {
    const Environment graphs("PERIGEE_SHIM_GRAPHS", order);
    EXPECT_EQ(after_steps(GetParam(), order[0] == '2' ? "2" : "4"), line) << order;
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, Branches, testing::ValuesIn(kBranchCases), [](const auto& info) { return std::string(info.param.name); });

// Whichever form is measured to be the faster one: nothing of what is measured is to be seen.
TEST(Branches, AreChosenByMeasurementThatChangesNothing) {
  Trainer chosen(lenet_job(), kDevice);
  for (int step = 0; step < 9; ++step) chosen.step();
  EXPECT_EQ(bits_of(chosen), after_steps(kBranchCases[0], "1"));
}

// Copies between four words: b = a, c = b, and beside them d = a; then a = c.
struct Words {
  explicit Words(Gpu& of) : gpu(of), memory(of.allocate(1024, "words")) {}
  std::byte* at(int word) const { return memory.data() + 256 * word; }
  DeviceWork copy(int to, int from) const {
    DeviceWork work{.what = "a copy"};
    work.access.read(range_of(at(from), 4));
    work.access.write(range_of(at(to), 4));
    work.queue = [this, to, from](CudaQueue& queue) { queue.status = gpu.module().copy(at(to), at(from), 4, queue.stream); };
    return work;
  }
  std::vector<int32_t> run(const std::vector<DeviceWork>& work) {
    for (int32_t i = 0; i < 4; ++i) gpu.upload(at(i), &i, sizeof i);
    GpuBranches branches(gpu, 4);
    const GpuHandle graph = branches.capture(work);
    gpu.launch(graph);
    gpu.wait();
    std::vector<int32_t> values(4);
    for (int i = 0; i < 4; ++i) gpu.download(&values[static_cast<size_t>(i)], at(i), sizeof(int32_t));
    return values;
  }
  Gpu& gpu;
  GpuMemory memory;
};

TEST(Branches, AMissingEdgeShows) {
  Gpu gpu(0, "branches_test");
  Words words(gpu);
  std::vector<DeviceWork> work = {words.copy(1, 0), words.copy(2, 1), words.copy(3, 0), words.copy(0, 2)};
  const std::vector<int32_t> right = {0, 0, 0, 0};
  EXPECT_EQ(words.run(work), right);
  // Each piece in turn does not say what it reads; then the third does not say what it writes, which no other piece touches.
  int shown = 0;
  for (DeviceWork& piece : work) {
    const StepAccess access = std::exchange(piece.access, {});
    shown += words.run(work) != right;
    piece.access = access;
  }
  EXPECT_EQ(shown, 3);
  work[2].access.writes.clear();
  EXPECT_EQ(words.run(work), right);
}

TEST(Branches, SayWhichPieceFails) {
  Gpu gpu(0, "branches_test");
  Words words(gpu);
  std::vector<DeviceWork> work = {words.copy(1, 0), words.copy(3, 0)};
  work[1].queue = [](CudaQueue& queue) { queue.status = 1, queue.failed = "no kernel"; };
  work[1].what = "layer 'a', op 'b'";
  GpuBranches branches(gpu, 2);
  EXPECT_THROW(
      {
        try {
          branches.capture(work);
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("layer 'a', op 'b'"), std::string::npos);
          throw;
        }
      },
      Error);
  work.pop_back();
  EXPECT_TRUE(branches.capture(work));  // what was captured until then is gone
}

}  // namespace
}  // namespace perigee
