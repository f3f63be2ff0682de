// NVIDIA's own libraries, where this machine has them, as far as they work without a GPU: NVRTC compiles what fused_source writes, and
// cuDNN plans our convolutions for an H100 that is described to it. What only a GPU can show is in tests/gpu.
#include <dlfcn.h>

#include <set>

#include "kernels/cuda/elementwise/fused_source.h"
#include "kernels/cuda/library/cudnn_conv.h"
#include "kernels/cuda/library/cudnn_norm.h"
#include "kernels/cuda/library/libraries.h"
#include "kernels/cuda/library/nvrtc_cache.h"
#include "kernels/cuda/runtime/group.h"
#include "tests/kernels/parity.h"

namespace perigee {
namespace {

// Writes the source of each call and lets the reference compute.
class WritingSite : public Site {
 public:
  void run(const Kernel& kernel, const KernelCall& call) override {
    if (fused_source_declines(call) == nullptr) texts.insert(fused_source(call, "perigee_fused").text);
    run_kernel(kernel, call);
  }
  std::set<std::string> texts;
};

// cuDNN and cuBLASLt open NVRTC by name alone when they first compile. The first test, before anything else has asked for it.
TEST(Toolkit, NvrtcIsOpenBeforeOthersAsk) {
  if (const char* why = cuda_library_missing(CudaLibrary::cudnn)) GTEST_SKIP() << why;
  for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12"})
    if (dlopen(file, RTLD_NOW | RTLD_NOLOAD) != nullptr) return;
  EXPECT_NE(cuda_library_missing(CudaLibrary::nvrtc), nullptr) << "it is there and was not open";
}

// NVRTC opens its built-ins by name alone when it first compiles. In a folder that the loader does not search, as Python's packages are, it
// finds them only if they are open already: before anything is compiled.
TEST(Toolkit, NvrtcsBuiltinsAreOpenBeforeItAsks) {
  const CudaLibraryInfo& nvrtc = cuda_library(CudaLibrary::nvrtc);
  if (nvrtc.why != nullptr) GTEST_SKIP() << nvrtc.why;
  const std::string name = std::string("libnvrtc-builtins.so.") + nvrtc.version;
  EXPECT_NE(dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr) << name << " beside " << nvrtc.path;
}

TEST(Toolkit, NvrtcCompilesFusedPrograms) {
  if (const char* why = cuda_library_missing(CudaLibrary::nvrtc)) GTEST_SKIP() << why;
  WritingSite site;
  for (const OpCase& tested : all_cases(0)) {
    if (tested.op != "fused") continue;
    Bench bench(tested, 0, site);
    for (const Variant& variant : kVariants)
      if (!variant.accumulate) bench.run(*ref_kernel("fused"), variant);
  }
  // One compilation of them all, each under a name of its own, takes as long as a few.
  std::string all = fused_prelude();
  size_t number = 0;
  for (std::string text : site.texts) {
    const size_t at = text.find("perigee_fused");
    all += text.insert(at + std::string("perigee_fused").size(), std::to_string(number++));
  }
  ASSERT_GT(number, 20u);
  ::setenv("XDG_CACHE_HOME", (testing::TempDir() + "/perigee_toolkit").c_str(), 1);
  for (const int major : {8, 9}) {
    std::string why;
    EXPECT_FALSE(compile_cuda(all, major, 0, &why).empty()) << why;
  }
  // For devices that NVRTC does not know it emits PTX text, which shows that programs begin as our kernels do (overlap.cuh).
  for (const int major : {8, 9}) {
    std::string why;
    const std::string ptx = compile_cuda(fused_prelude() + *site.texts.begin(), major, 5, &why);
    EXPECT_NE(ptx.find(".entry"), std::string::npos) << why;
    EXPECT_EQ(ptx.find("griddepcontrol.wait") < std::min(ptx.find("ld.global"), ptx.find("st.global")), major >= 9);
  }
}

constexpr const char* kH100 =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,)"
    R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
    R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":9008,"isTccDriver":0,"supportCoopLaunch":1,)"
    R"("totalGlobalMem":85000000000,"smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,"cudaDeviceId":0,)"
    R"("deviceVer":900,"driverVer":13000,"deviceName":"NVIDIA H100 80GB HBM3"})";

CudnnConv conv(int64_t n, int64_t c, int64_t size, int64_t o, int64_t kernel, int32_t stride, int32_t padding, int32_t groups) {
  const int64_t out = (size + 2 * padding - kernel) / stride + 1;
  return {.image = {n, c, size, size},
          .kernel = {o, c / groups, kernel, kernel},
          .result = {n, o, out, out},
          .params = {.stride = {stride, stride}, .padding = {padding, padding, padding, padding}, .groups = groups}};
}

// Alone and with what goes along: conv_cudnn.cpp does by itself what there is no plan for.
TEST(Toolkit, CudnnPlansOurConvolutionsForAnH100) {
  if (const char* why = cuda_library_missing(CudaLibrary::cudnn)) GTEST_SKIP() << why;
  const CudaQueue queue{.workspace_bytes = size_t{256} << 20};
  if (!cudnn_has_plan(conv(32, 16, 28, 16, 3, 1, 1, 1), kH100, queue)) GTEST_SKIP() << "this cuDNN does not plan without a GPU";
  for (CudnnConv shape : {conv(128, 64, 56, 64, 3, 1, 1, 1), conv(128, 3, 224, 64, 7, 2, 3, 1), conv(128, 256, 56, 64, 1, 1, 0, 1),
                          conv(64, 1, 28, 20, 5, 1, 0, 1), conv(32, 32, 28, 32, 3, 1, 1, 32)})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::grad_input, ConvDirection::grad_weight})
        for (const bool fused : {false, true}) {  // with bias and relu; a gradient that is added
          if (fused && direction == ConvDirection::grad_weight) continue;
          const bool forward = direction == ConvDirection::forward;
          shape.dtype = dtype, shape.direction = direction, shape.bias = fused && forward, shape.params.relu = fused && forward;
          shape.accumulate = fused && !forward;
          EXPECT_TRUE(cudnn_has_plan(shape, kH100, queue))
              << "channels " << shape.image[1] << ", dtype " << static_cast<int>(dtype) << ", direction " << static_cast<int>(direction)
              << (fused ? ", more than the convolution" : "");
        }
}

// All convolutions of ResNet-50 as tests/gpu/bench.py has it, at batch 128: stride in the 3x3 convolution of a stage's first block.
std::vector<CudnnConv> resnet50() {
  std::vector<CudnnConv> all = {conv(128, 3, 224, 64, 7, 2, 3, 1)};
  int64_t channels = 64, size = 56;
  for (const int64_t width : {64, 128, 256, 512}) {
    const int32_t stride = width == 64 ? 1 : 2;
    for (const bool first : {true, false}) {
      const int32_t step = first ? stride : 1;
      all.push_back(conv(128, channels, size, width, 1, 1, 0, 1));
      all.push_back(conv(128, width, size, width, 3, step, 1, 1));
      if (first) all.push_back(conv(128, channels, size, 4 * width, 1, stride, 0, 1));
      size /= step;
      all.push_back(conv(128, width, size, 4 * width, 1, 1, 0, 1));
      channels = 4 * width;
    }
  }
  return all;
}

std::vector<CudnnConv> lenet() {
  std::vector<CudnnConv> all;
  for (const int64_t batch : {32, 1024})
    all.push_back(conv(batch, 1, 28, 20, 5, 1, 0, 1)), all.push_back(conv(batch, 20, 12, 50, 5, 2, 0, 1));
  for (CudnnConv& one : all) one.bias = true, one.params.relu = 1;
  return all;
}

// With the workspace that a queue has on a GPU (kernels/cuda/runtime/module.cpp).
TEST(Toolkit, CudnnPlansTheBenchmarksConvolutions) {
  if (const char* why = cuda_library_missing(CudaLibrary::cudnn)) GTEST_SKIP() << why;
  CudaQueue queue{.workspace_bytes = size_t{128} << 20};
  if (!cudnn_has_plan(conv(32, 16, 28, 16, 3, 1, 1, 1), kH100, queue)) GTEST_SKIP() << "this cuDNN does not plan without a GPU";
  const auto plans = [&queue](CudnnConv shape, Dtype dtype, bool channels_last) {
    shape.dtype = dtype, shape.channels_last = channels_last;
    for (const ConvDirection direction : {ConvDirection::forward, ConvDirection::grad_input, ConvDirection::grad_weight}) {
      shape.direction = direction;
      if (direction != ConvDirection::forward) shape.bias = false, shape.params.relu = 0;
      EXPECT_TRUE(cudnn_has_plan(shape, kH100, queue))
          << "image " << shape.image[0] << 'x' << shape.image[1] << 'x' << shape.image[2] << ", kernel " << shape.kernel[0] << 'x'
          << shape.kernel[1] << 'x' << shape.kernel[2] << ", dtype " << static_cast<int>(dtype) << ", direction "
          << static_cast<int>(direction) << (queue.tf32 ? ", tf32" : "") << (queue.deterministic ? ", deterministic" : "")
          << (channels_last ? ", channels last" : "");
    }
  };
  for (queue.deterministic = false;; queue.deterministic = true) {
    for (const CudnnConv& shape : resnet50()) plans(shape, Dtype::bf16, true);
    for (const CudnnConv& shape : lenet())
      for (const bool channels_last : {false, true}) {
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) plans(shape, dtype, channels_last);
        queue.tf32 = true;
        plans(shape, Dtype::f32, channels_last);
        queue.tf32 = false;
      }
    if (queue.deterministic) break;
  }
}

// cuDNN plans its run-time compiled engines only with a driver: the machine's, or one without a device (toolkit_driver.cpp).
bool driver_is_open() {
  const char* const stand_in = std::getenv("PERIGEE_TOOLKIT_DRIVER");
  return dlopen("libcuda.so.1", RTLD_NOW) != nullptr || (stand_in != nullptr && dlopen(stand_in, RTLD_NOW) != nullptr);
}

// ResNet-50's kinds of batch norm, with the workspace that a queue has on a GPU.
TEST(Toolkit, CudnnPlansOurBatchNormsForAnH100) {
  if (const char* why = cuda_library_missing(CudaLibrary::cudnn)) GTEST_SKIP() << why;
  if (!driver_is_open()) GTEST_SKIP() << "no driver: PERIGEE_TOOLKIT_DRIVER names a stand-in for one";
  const CudaQueue queue{.workspace_bytes = size_t{128} << 20, .deterministic = true};
  struct Shape {
    int64_t channels, size;
    Dtype dtype;
  };
  int relus = 0;
  for (const Shape& shape : {Shape{64, 112, Dtype::bf16}, Shape{256, 56, Dtype::bf16}, Shape{2048, 7, Dtype::bf16},
                             Shape{256, 14, Dtype::f16}, Shape{512, 1, Dtype::f32}})
    for (const bool backward : {false, true})
      for (const bool residual : {false, true}) {
        const bool relu = residual || ++relus % 4 != 0;  // one in four is plain
        const CudnnNorm norm{.backward = backward,
                             .dtype = shape.dtype,
                             .image = {128, shape.channels, shape.size, shape.size},
                             .relu = relu,
                             .residual = residual,
                             .keeps_masked = backward && residual};
        EXPECT_TRUE(cudnn_has_plan(norm, kH100, queue))
            << shape.channels << " channels, dtype " << static_cast<int>(shape.dtype) << (backward ? ", backward" : "")
            << (relu ? ", relu" : "") << (residual ? ", residual" : "");
      }
}

// No communicator without a GPU: what is there is found, and says why it cannot begin.
TEST(Toolkit, NcclHasWhatWeCall) {
  if (const char* why = cuda_library_missing(CudaLibrary::nccl)) GTEST_SKIP() << why;
  EXPECT_EQ(cuda_groups().missing(), nullptr);
  EXPECT_TRUE(cuda_groups().can_be_captured()) << cuda_library(CudaLibrary::nccl).version;
  const int devices[] = {0, 1};
  void* group = nullptr;
  const char* const said = cuda_groups().open(devices, 2, &group);
  if (said == nullptr) {
    EXPECT_EQ(cuda_groups().close(group), nullptr);
    return;
  }
  EXPECT_NE(std::string(said), "");
  EXPECT_EQ(group, nullptr);
}

}  // namespace
}  // namespace perigee
