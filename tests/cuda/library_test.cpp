// Finding libraries, and what kernels around libraries do with 16-bit numbers and failures.
#include "kernels/cuda/library/libraries.h"

#include <map>
#include <vector>

#include "kernels/cuda/library/library_cache.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/registry.h"
#include "kernels/half.h"
#include "kernels/ops/conv.h"
#include "kernels/ops/fused.h"
#include "kernels/ops/linear.h"
#include "tests/cuda/library_site.h"

namespace perigee {
namespace {

const Kernel& kernel_of(std::string_view op) {
  for (const KernelList& list : cuda_kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (op == list.first[i].op) return list.first[i];
  throw std::runtime_error("no kernel");
}

TEST(CudaLibraries, AreFoundWhereTheVariableSays) {
  for (const CudaLibrary library : kCudaLibraries) {
    const CudaLibraryInfo& info = cuda_library(library);
    EXPECT_EQ(info.why, nullptr) << info.name << ": " << info.why;
    EXPECT_NE(std::string(info.path).find("fakes"), std::string::npos) << info.path;
    EXPECT_TRUE(std::string(info.version)
                    .starts_with(library == CudaLibrary::cudnn  ? "9.19"
                                 : library == CudaLibrary::nccl ? "2.28.7"
                                                                : "13.0"))
        << info.version;
  }
}

// A cuDNN that finds no cuBLASLt of the CUDA that it was built for ends the process (9.10 and 9.26 do).
TEST(CudaLibrariesDeathTest, CudnnIsNotUsedWithoutItsCublas) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process in which nothing is open yet
  const auto why_not = [] {
    setenv("FAKE_CUDNN_BUILT_FOR", "11080", 1);
    const CudaLibraryInfo& cudnn = cuda_library(CudaLibrary::cudnn);
    std::fprintf(stderr, "%s\n", cudnn.why != nullptr ? cudnn.why : "nothing is missing");
    std::exit(0);
  };
  EXPECT_EXIT(why_not(), testing::ExitedWithCode(0), "fakes/libcudnn.so.9 wants libcublasLt.so.11, which is not found");
}

struct Half {
  Dtype dtype;
  uint16_t (*from)(float);
  float (*to)(uint16_t);
};
const Half kHalves[] = {{Dtype::bf16, bf16_from_float, float_from_bf16}, {Dtype::f16, f16_from_float, float_from_f16}};

View view(void* data, Dtype dtype, std::initializer_list<int64_t> dims) {
  return contiguous_view(data, dtype, Shape(std::vector<int64_t>(dims)));
}

// Small integers are exact in 16 bits, and so are their sums: the result has to be exact.
TEST(LibraryKernels, LinearOfHalvesIsExactOnSmallIntegers) {
  constexpr int64_t kRows = 6, kIn = 10, kOut = 7;
  for (const Half& half : kHalves) {
    std::vector<uint16_t> x(kRows * kIn), w(kOut * kIn), b(kOut), y(kRows * kOut), dw(kOut * kIn), db(kOut);
    const auto fill = [&](std::vector<uint16_t>& v, int step) {
      for (size_t i = 0; i < v.size(); ++i) v[i] = half.from(static_cast<float>(static_cast<int>(i * step % 5) - 2));
    };
    fill(x, 3), fill(w, 7), fill(b, 2);
    LibrarySite site;
    LinearParams params{LinearActivation::relu};
    View in[] = {view(x.data(), half.dtype, {kRows, kIn}), view(w.data(), half.dtype, {kOut, kIn}), view(b.data(), half.dtype, {kOut})};
    View out[] = {view(y.data(), half.dtype, {kRows, kOut})};
    const KernelCall forward{.in = in, .out = out, .n_in = 3, .n_out = 1, .params = &params};
    ASSERT_EQ(kernel_of("linear").decline(forward), nullptr);
    site.run(kernel_of("linear"), forward);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t o = 0; o < kOut; ++o) {
        float sum = half.to(b[o]);
        for (int64_t i = 0; i < kIn; ++i) sum += half.to(x[r * kIn + i]) * half.to(w[o * kIn + i]);
        EXPECT_EQ(half.to(y[r * kOut + o]), std::max(sum, 0.0f)) << r << ' ' << o;
      }
    View grad_in[] = {view(y.data(), half.dtype, {kRows, kOut}), in[0]};
    View grad_out[] = {view(dw.data(), half.dtype, {kOut, kIn}), view(db.data(), half.dtype, {kOut})};
    const KernelCall backward{.in = grad_in, .out = grad_out, .n_in = 2, .n_out = 2, .params = &params};
    ASSERT_EQ(kernel_of("linear_grad_weight").decline(backward), nullptr);
    site.run(kernel_of("linear_grad_weight"), backward);
    for (int64_t o = 0; o < kOut; ++o) {
      float sum = 0;
      for (int64_t r = 0; r < kRows; ++r) sum += half.to(y[r * kOut + o]);
      EXPECT_EQ(half.to(db[o]), half.to(half.from(sum))) << o;
    }
  }
}

TEST(LibraryKernels, ConvolutionOfHalvesIsExactOnSmallIntegers) {
  for (const Half& half : kHalves) {
    std::vector<uint16_t> x(2 * 5 * 5 * 3), w(4 * 3 * 3 * 3), b(4), y(2 * 5 * 5 * 4);
    for (size_t i = 0; i < x.size(); ++i) x[i] = half.from(static_cast<float>(static_cast<int>(i * 3 % 5) - 2));
    for (size_t i = 0; i < w.size(); ++i) w[i] = half.from(static_cast<float>(static_cast<int>(i * 7 % 3) - 1));
    for (size_t i = 0; i < b.size(); ++i) b[i] = half.from(static_cast<float>(i));
    LibrarySite site;
    const ConvParams params{.padding = {1, 1, 1, 1}, .relu = 1};
    View in[] = {view(x.data(), half.dtype, {2, 3, 5, 5}), view(w.data(), half.dtype, {4, 3, 3, 3}), view(b.data(), half.dtype, {4})};
    View out[] = {view(y.data(), half.dtype, {2, 4, 5, 5})};
    const auto channels_last = [](View& v) {
      v.strides[0] = v.dims[1] * v.dims[2] * v.dims[3], v.strides[1] = 1, v.strides[2] = v.dims[3] * v.dims[1], v.strides[3] = v.dims[1];
    };
    channels_last(in[0]), channels_last(out[0]);
    const KernelCall call{.in = in, .out = out, .n_in = 3, .n_out = 1, .params = &params};
    ASSERT_EQ(kernel_of("conv2d").decline(call), nullptr);
    site.run(kernel_of("conv2d"), call);
    const auto at = [&](int64_t n, int64_t c, int64_t i, int64_t j) {
      return i < 0 || j < 0 || i > 4 || j > 4 ? 0.0f : half.to(x[static_cast<size_t>(((n * 5 + i) * 5 + j) * 3 + c)]);
    };
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t o = 0; o < 4; ++o)
        for (int64_t i = 0; i < 5; ++i)
          for (int64_t j = 0; j < 5; ++j) {
            float sum = static_cast<float>(o);
            for (int64_t c = 0; c < 3; ++c)
              for (int64_t p = 0; p < 3; ++p)
                for (int64_t q = 0; q < 3; ++q)
                  sum += at(n, c, i + p - 1, j + q - 1) * half.to(w[static_cast<size_t>(((o * 3 + c) * 3 + p) * 3 + q)]);
            EXPECT_EQ(half.to(y[static_cast<size_t>(((n * 5 + i) * 5 + j) * 4 + o)]), std::max(sum, 0.0f));
          }
  }
}

// A library's algorithms are numbered, best first; who asks for more than there are gets the last.
TEST(LibraryKernels, TakeTheAlgorithmThatTheQueueAsksFor) {
  std::vector<float> x(40, 1), w(40, 2), y(16), image(2 * 3 * 25, 1), weight(4 * 3 * 9, 1), result(2 * 4 * 9);
  LibrarySite site;
  const LinearParams params;
  View in[] = {view(x.data(), Dtype::f32, {4, 10}), view(w.data(), Dtype::f32, {4, 10})};
  View out[] = {view(y.data(), Dtype::f32, {4, 4})};
  const KernelCall linear{.in = in, .out = out, .n_in = 2, .n_out = 1, .params = &params};
  const ConvParams conv_params;
  View conv_in[] = {view(image.data(), Dtype::f32, {2, 3, 5, 5}), view(weight.data(), Dtype::f32, {4, 3, 3, 3})};
  View conv_out[] = {view(result.data(), Dtype::f32, {2, 4, 3, 3})};
  const KernelCall conv{.in = conv_in, .out = conv_out, .n_in = 2, .n_out = 1, .params = &conv_params};
  for (const auto& [op, call, last, results, value] :
       {std::tuple{"linear", &linear, 2, &y, 20.0f}, std::tuple{"conv2d", &conv, 0, &result, 27.0f}})
    for (const int asked : {0, 1, 2, 7, 0}) {
      std::fill(results->begin(), results->end(), 0.0f);
      site.queue.algorithm = asked, site.queue.taken = 0;
      site.run(kernel_of(op), *call);
      EXPECT_EQ(site.queue.taken, std::min(asked, last)) << op << ' ' << asked;
      EXPECT_EQ(*results, std::vector<float>(results->size(), value)) << op << ' ' << asked;
    }
}

// cuBLASLt was seen to lose the end of a sum that it cuts into parts: with four parts of 16 elements each, two that are left over.
TEST(LibraryKernels, NoAlgorithmLosesTheEndOfASum) {
  std::vector<float> x(4 * 66, 1), w(4 * 66, 2), y(16);
  LibrarySite site;
  const LinearParams params;
  View in[] = {view(x.data(), Dtype::f32, {4, 66}), view(w.data(), Dtype::f32, {4, 66})};
  View out[] = {view(y.data(), Dtype::f32, {4, 4})};
  for (const int asked : {0, 1, 2, 7}) {
    std::fill(y.begin(), y.end(), 0.0f);
    site.queue.algorithm = asked, site.queue.taken = 0;
    site.run(kernel_of("linear"), {.in = in, .out = out, .n_in = 2, .n_out = 1, .params = &params});
    EXPECT_EQ(y, std::vector<float>(16, 132)) << asked;
    EXPECT_EQ(site.queue.taken, std::min(asked, 1));  // of three one is left out
  }
}

// An algorithm that was chosen for a result at a low border and a bias at a high one is not taken for the opposite.
TEST(LibraryKernels, OperandsLieAtAnyBorders) {
  alignas(256) float x[40], w[40], bias[32], y[64], image[80], weight[36], convolved[72];
  std::fill_n(x, 40, 1.0f), std::fill_n(w, 40, 2.0f), std::fill_n(bias, 32, 3.0f), std::fill_n(image, 80, 1.0f),
      std::fill_n(weight, 36, 1.0f);
  LibrarySite site;
  const LinearParams params;
  struct Borders {
    int y, bias, x, w;
  };
  // A plan for the best alignment does not serve others.
  for (const Borders& of : {Borders{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {1, 4, 0, 0}, {0, 0, 0, 0}}) {
    View in[] = {view(x + of.x, Dtype::f32, {4, 8}), view(w + of.w, Dtype::f32, {4, 8}), view(bias + of.bias, Dtype::f32, {4})};
    View out[] = {view(y + of.y, Dtype::f32, {4, 4})};
    site.run(kernel_of("linear"), {.in = in, .out = out, .n_in = 3, .n_out = 1, .params = &params});
    for (int i = 0; i < 16; ++i) EXPECT_EQ(y[of.y + i], 19) << of.y << ' ' << of.bias << ' ' << of.x << ' ' << of.w;
  }
  const ConvParams conv{.relu = 1};
  for (const int border : {0, 1}) {
    View in[] = {view(image + border, Dtype::f32, {2, 1, 5, 5}), view(weight, Dtype::f32, {4, 1, 3, 3}), view(bias, Dtype::f32, {4})};
    View out[] = {view(convolved, Dtype::f32, {2, 4, 3, 3})};
    site.run(kernel_of("conv2d"), {.in = in, .out = out, .n_in = 3, .n_out = 1, .params = &conv});
    for (int i = 0; i < 72; ++i) EXPECT_EQ(convolved[i], 12) << border;
  }
}

// Gradients that meet at a residual: the gradient is added to what is there, in one pass.
TEST(LibraryKernels, GradientsOfAConvolutionAreAdded) {
  std::vector<float> dy(2 * 4 * 9, 1), w(4 * 3 * 9), dx(2 * 3 * 25), before(dx.size()), alone(dx.size());
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(static_cast<int>(i * 7 % 5) - 2);
  for (size_t i = 0; i < before.size(); ++i) before[i] = static_cast<float>(static_cast<int>(i * 3 % 7) - 3);
  LibrarySite site;
  const ConvParams params;
  View in[] = {view(dy.data(), Dtype::f32, {2, 4, 3, 3}), view(w.data(), Dtype::f32, {4, 3, 3, 3})};
  View out[] = {view(dx.data(), Dtype::f32, {2, 3, 5, 5})};
  KernelCall call{.in = in, .out = out, .n_in = 2, .n_out = 1, .params = &params};
  ASSERT_TRUE(kernel_of("conv2d_grad_input").accumulates);
  site.run(kernel_of("conv2d_grad_input"), call);
  alone = dx, dx = before, call.accumulate = true;
  site.run(kernel_of("conv2d_grad_input"), call);
  EXPECT_NE(alone, std::vector<float>(alone.size()));
  for (size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(dx[i], before[i] + alone[i]) << i;
}

// Linear layers, convolutions and element-wise programs of many shapes on one queue, by number.
struct Shapes {
  void run(LibrarySite& site, int64_t number) {
    View in[] = {view(memory.data(), Dtype::f32, {1, number}), view(memory.data(), Dtype::f32, {4, number})};
    View out[] = {view(result.data(), Dtype::f32, {1, 4})};
    const LinearParams linear;
    site.run(kernel_of("linear"), {.in = in, .out = out, .n_in = 2, .n_out = 1, .params = &linear});
    View conv_in[] = {view(memory.data(), Dtype::f32, {1, number, 1, 1}), view(memory.data(), Dtype::f32, {1, number, 1, 1})};
    View conv_out[] = {view(result.data(), Dtype::f32, {1, 1, 1, 1})};
    const ConvParams conv;
    site.run(kernel_of("conv2d"), {.in = conv_in, .out = conv_out, .n_in = 2, .n_out = 1, .params = &conv});
    run_program(site, number);
  }
  void run_program(LibrarySite& site, int64_t number) {
    View fused_in[] = {view(memory.data(), Dtype::f32, {4})}, fused_out[] = {view(result.data(), Dtype::f32, {4})};
    FusedParams program = {};
    program.n_inputs = program.n_constants = program.n_instructions = program.n_outputs = 1;
    program.constants[0] = static_cast<double>(number);
    program.code[0] = {Elementwise::add, kFusedTemporaryBase, {0, kFusedConstantBase, 0}};
    program.outputs[0] = kFusedTemporaryBase;
    site.run(kernel_of("fused"), {.in = fused_in, .out = fused_out, .n_in = 1, .n_out = 1, .params = &program});
  }
  std::vector<float> memory = std::vector<float>(1 << 14, 1), result = std::vector<float>(4);
};

void on_launch(void (*hook)(const char* text, unsigned blocks, unsigned threads, void** arguments)) {
  reinterpret_cast<void (*)(decltype(hook))>(cuda_library_function(CudaLibrary::driver, "fake_driver_on_launch"))(hook);
}

TEST(LibraryKernels, AProgramIsCompiledForTheDevice) {
  static std::string code;
  on_launch([](const char* text, unsigned, unsigned, void**) { code = text; });
  LibrarySite site;
  Shapes().run(site, 3);
  EXPECT_TRUE(code.starts_with("// sm_90\n")) << code.substr(0, code.find('\n'));
}

__global__ void own_kernel() { begin_kernel(); }

// As any kernel of ours does (overlap_test.cpp), in a capture.
TEST(LibraryKernels, AProgramOverlapsTheKernelOfOursBeforeIt) {
  on_launch([](const char*, unsigned, unsigned, void**) {});
  LibrarySite site;
  const auto overlaps_of_program = [&] {
    const auto count = reinterpret_cast<int64_t (*)()>(cuda_library_function(CudaLibrary::driver, "fake_driver_overlaps"));
    const int64_t before = count();
    Shapes().run_program(site, 3);
    return count() - before;
  };
  prepare_overlaps(0);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  site.queue.stream = stream;
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  begin_overlaps();
  EXPECT_EQ(overlaps_of_program(), 0);
  Launches(site.queue, "own").launch(own_kernel, 1, kThreads);
  EXPECT_EQ(overlaps_of_program(), 1);
  EXPECT_EQ(shim::enqueue(stream, true, [] {}), cudaSuccess);  // as a library does
  EXPECT_EQ(overlaps_of_program(), 0);
  end_overlaps();
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(overlaps_of_program(), 0);
  cudaGraphDestroy(graph), cudaStreamDestroy(stream);
}

int64_t live(CudaLibrary library) {
  EXPECT_EQ(cuda_library_missing(library), nullptr);  // it is loaded when it is first asked for
  return reinterpret_cast<int64_t (*)()>(cuda_library_function(library, "fake_live_handles"))();
}

// For each library a queue keeps the 512 calls that were used last, and those that a graph holds on to.
TEST(LibraryCaches, AreBoundedButForWhatGraphsHold) {
  constexpr CudaLibrary kKeeping[] = {CudaLibrary::cublas_lt, CudaLibrary::cudnn, CudaLibrary::driver};
  constexpr auto kMost = static_cast<int64_t>(LibraryCache<int, int>::kMost);
  on_launch([](const char*, unsigned, unsigned, void**) {});
  std::map<CudaLibrary, int64_t> before, of_one, full;
  for (const CudaLibrary library : kKeeping) before[library] = live(library);
  {
    Shapes shapes;
    LibrarySite site;
    const auto run = [&](int64_t from, int64_t to) {
      for (int64_t number = from; number < to; ++number) shapes.run(site, number);
    };
    run(1, 2);
    for (const CudaLibrary library : kKeeping) of_one[library] = live(library);
    run(2, 3);
    for (const CudaLibrary library : kKeeping) {
      of_one[library] = live(library) - of_one[library];
      EXPECT_GT(of_one[library], 0);
    }
    run(3, kMost + 1);
    for (const CudaLibrary library : kKeeping) full[library] = live(library);
    begin_holding();
    run(1, 3);
    HeldByGraph held = end_holding();
    EXPECT_EQ(held.size(), 6u);
    run(kMost + 1, 2 * kMost + 1);
    for (const CudaLibrary library : kKeeping) EXPECT_EQ(live(library), full[library]);
    for (const auto& each : held) EXPECT_EQ(each.use_count(), 2);  // the graph's and the queue's
    begin_holding();
    run(1, 3);  // what is held is found again
    EXPECT_EQ(end_holding(), held);
    begin_holding();
    run(2 * kMost + 1, 3 * kMost + 8);  // more than are kept otherwise
    HeldByGraph many = end_holding();
    for (const CudaLibrary library : kKeeping) EXPECT_EQ(live(library), full[library] + 9 * of_one[library]);
    many.clear(), held.clear();
    run(1, 2);
    run(4 * kMost, 4 * kMost + 1);
    for (const CudaLibrary library : kKeeping) EXPECT_EQ(live(library), full[library]);
  }
  for (const CudaLibrary library : kKeeping) EXPECT_EQ(live(library), before[library]);
}

// A plan of one call does not serve a call with other numbers, memory or options, and is found again.
TEST(LibraryCaches, TellCallsApartByAllThatTheyDependOn) {
  std::vector<float> memory(1 << 10, 0), result(1 << 10);
  LibrarySite site;
  Dtype from = Dtype::f32, to = Dtype::f32;
  const LinearParams linear;
  const ConvParams conv;
  const auto product = [&] {
    View in[] = {view(memory.data(), from, {4, 16}), view(memory.data(), from, {4, 16})}, out[] = {view(result.data(), to, {4, 4})};
    const KernelCall call{.in = in, .out = out, .n_in = 2, .n_out = 1, .params = &linear};
    ASSERT_EQ(kernel_of("linear").decline(call), nullptr);
    site.run(kernel_of("linear"), call);
  };
  const auto convolution = [&] {
    View in[] = {view(memory.data(), from, {2, 8, 3, 3}), view(memory.data(), from, {8, 8, 3, 3})};
    View out[] = {view(result.data(), to, {2, 8, 1, 1})};
    site.run(kernel_of("conv2d"), {.in = in, .out = out, .n_in = 2, .n_out = 1, .params = &conv});
  };
  const auto is_new = [&](CudaLibrary library, const auto& run) {
    const int64_t before = live(library);
    run();
    const bool grew = live(library) > before;
    const int64_t after = live(library);
    run();
    EXPECT_EQ(live(library), after);
    return grew;
  };
  const auto product_is_new = [&] { return is_new(CudaLibrary::cublas_lt, product); };
  const auto convolution_is_new = [&] { return is_new(CudaLibrary::cudnn, convolution); };
  const size_t whole = site.queue.workspace_bytes;
  EXPECT_TRUE(product_is_new() && convolution_is_new());
  site.queue.tf32 = true;
  EXPECT_TRUE(product_is_new() && convolution_is_new());
  site.queue.workspace_bytes = whole / 2;
  EXPECT_TRUE(product_is_new() && convolution_is_new());
  site.queue.deterministic = true;
  EXPECT_TRUE(convolution_is_new());
  site.queue.deterministic = site.queue.tf32 = false, site.queue.workspace_bytes = whole;
  EXPECT_FALSE(product_is_new() || convolution_is_new());
  from = to = Dtype::f16;
  EXPECT_TRUE(product_is_new() && convolution_is_new());
  from = to = Dtype::bf16;
  EXPECT_TRUE(product_is_new() && convolution_is_new());
  to = Dtype::f32;
  EXPECT_TRUE(product_is_new());
  from = Dtype::f16;
  EXPECT_TRUE(product_is_new());
}

// The queue keeps the first failure and names kernel and reason; nothing is queued after it.
TEST(LibraryKernels, AFailureIsTheQueues) {
  std::vector<float> x(40), w(40), y(16, 7);
  LibrarySite site;
  const LinearParams params;
  View in[] = {view(x.data(), Dtype::f32, {4, 10}), view(w.data(), Dtype::f32, {4, 10})};
  View out[] = {view(y.data(), Dtype::f32, {4, 4})};
  const KernelCall call{.in = in, .out = out, .n_in = 2, .n_out = 1, .params = &params, .queue = &site.queue};
  report_library(site.queue, "conv2d cudnn", "CUDNN_STATUS_EXECUTION_FAILED");
  kernel_of("linear").run(call);
  EXPECT_EQ(site.queue.status, kLibraryFailed);
  EXPECT_STREQ(site.queue.failed, "conv2d cudnn: CUDNN_STATUS_EXECUTION_FAILED");
  EXPECT_EQ(y, std::vector<float>(16, 7));
}

}  // namespace
}  // namespace perigee
