// Every algorithm of cuBLASLt and cuDNN that a measurement may choose adds up all that it should; parity takes operands that are too small
// for sums in parts. Operands are ones, so that what a result lacks is how much of its sum is missing.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "kernels/ops/conv.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/matmul.h"
#include "tests/gpu/gpu_site.h"

namespace perigee {
namespace {

constexpr int kMostAlgorithms = 8;

class LibraryTrial {
 public:
  LibraryTrial() { site_.gpu.queue().tf32 = false; }

  Gpu& gpu() { return site_.gpu; }

  View operand(Dtype dtype, std::initializer_list<int64_t> dims, bool channels_last = false) {
    View v = contiguous_view(nullptr, dtype, Shape(std::vector<int64_t>(dims)));
    if (channels_last)
      v.strides[0] = v.dims[1] * v.dims[2] * v.dims[3], v.strides[1] = 1, v.strides[2] = v.dims[3] * v.dims[1], v.strides[3] = v.dims[1];
    held_.push_back(gpu().allocate(static_cast<size_t>(v.elements()) * dtype_bytes(dtype), "an operand"));
    v.data = held_.back().data();
    return v;
  }
  // For contiguous operands; the others all behave alike.
  template <class Value>
  void fill_by(const View& v, Value value) {
    std::vector<float> values(static_cast<size_t>(v.elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<int64_t>(i));
    if (v.dtype == Dtype::f32) return gpu().upload(v.data, values.data(), values.size() * sizeof(float));
    std::vector<uint16_t> halves(values.size());
    for (size_t i = 0; i < values.size(); ++i) halves[i] = bf16_from_float(values[i]);
    gpu().upload(v.data, halves.data(), halves.size() * sizeof(uint16_t));
  }
  void fill(const View& v, float value) {
    fill_by(v, [value](int64_t) { return value; });
  }
  std::vector<float> read(const View& v) {
    std::vector<float> values(static_cast<size_t>(v.elements()));
    if (v.dtype == Dtype::f32) return gpu().download(values.data(), v.data, values.size() * sizeof(float)), values;
    std::vector<uint16_t> halves(values.size());
    gpu().download(halves.data(), v.data, halves.size() * sizeof(uint16_t));
    for (size_t i = 0; i < values.size(); ++i) values[i] = float_from_bf16(halves[i]);
    return values;
  }

  // Runs the call by each algorithm that the library has for it, results filled with `before`, and hands them to `check`.
  template <class Check>
  void run(const char* op, const char* name, KernelCall call, float before, Check check) {
    const Kernel* const kernel = find(op, name);
    if (kernel == nullptr || kernel->decline(call) != nullptr) return;
    const StepInfo step = {};
    call.step = &step;
    CudaQueue& queue = gpu().queue();
    for (int algorithm = 0; algorithm < kMostAlgorithms; ++algorithm) {
      SCOPED_TRACE(std::string(op) + " [" + name + "#" + std::to_string(algorithm) + "]" + (queue.tf32 ? " in tf32" : ""));
      for (int i = 0; i < call.n_out; ++i) fill(call.out[i], before);
      queue.algorithm = algorithm, queue.taken = 0;
      try {
        site_.run(*kernel, call);
      } catch (const Refused&) {
        if (queue.taken < algorithm) break;
        continue;
      }
      if (queue.taken < algorithm) break;
      ++ran;
      for (int i = 0; i < call.n_out; ++i) check(call.out[i]);
      if (testing::Test::HasFailure()) break;  // once told is enough
    }
    queue.algorithm = 0;
  }
  void forget() { held_.clear(); }

  int ran = 0;

 private:
  const Kernel* find(std::string_view op, std::string_view name) {
    for (const KernelList& list : gpu().module().kernels())
      for (const Kernel& kernel : std::span(list.first, list.count))
        if (op == kernel.op && name == kernel.name) return &kernel;
    return nullptr;
  }

  GpuSite site_;
  std::vector<GpuMemory> held_;
};

void expect_all(LibraryTrial& trial, const View& result, double wanted, double tolerance) {
  int wrong = 0;
  for (const float value : trial.read(result))
    if (!(std::abs(static_cast<double>(value) - wanted) <= tolerance * wanted) && wrong++ == 0)
      ADD_FAILURE() << value << " in the place of " << wanted;
}

// Whole blocks of k that go evenly into parts, and a few elements more.
std::vector<int64_t> deep_sums() {
  if (in_brief()) return {66, 100};
  std::vector<int64_t> sums;
  for (const int64_t block : {16, 32, 64, 128})
    for (const int64_t parts : {2, 3, 4, 6, 8, 16})
      for (const int64_t left : {1, 2, 7})
        if (left < parts) sums.push_back(block * parts * (left == 1 ? 5 : 12) + left);
  return sums;
}

TEST(GpuLibraries, EveryAlgorithmOfCublasSumsToTheEnd) {
  PERIGEE_SKIP_WITHOUT_GPU();
  LibraryTrial trial;
  const MatmulParams matmul;
  const LinearParams linear;
  for (const int64_t k : deep_sums())
    for (const int form : {0, 1, 2}) {  // f32, tf32; bf16, where only the end is ones, for its whole numbers end at 256
      const Dtype dtype = form == 2 ? Dtype::bf16 : Dtype::f32;
      const int64_t begin = form == 2 ? k - 60 : 0;
      trial.gpu().queue().tf32 = form == 1;
      SCOPED_TRACE("sums of " + std::to_string(k) + (form == 2 ? " in bf16" : ""));
      View in[] = {trial.operand(dtype, {24, k}), trial.operand(dtype, {k, 40})};
      View out[] = {trial.operand(dtype, {24, 40})};
      trial.fill_by(in[0], [&](int64_t i) { return i % k >= begin ? 1.0f : 0.0f; });
      trial.fill(in[1], 1);
      const auto check = [&](const View& result) { expect_all(trial, result, static_cast<double>(k - begin), 0); };
      trial.run("matmul", "cublas", {.in = in, .out = out, .n_in = 2, .n_out = 1, .params = &matmul}, -7, check);
      View rows[] = {trial.operand(dtype, {k, 24}), in[1]};
      View gradients[] = {trial.operand(dtype, {24, 40}), trial.operand(dtype, {24})};
      trial.fill_by(rows[0], [&](int64_t i) { return i / 24 >= begin ? 1.0f : 0.0f; });
      trial.run("linear_grad_weight", "cublas", {.in = rows, .out = gradients, .n_in = 2, .n_out = 2, .params = &linear}, -7, check);
      trial.forget();
    }
  std::printf("%d algorithms of cuBLASLt were tried\n", trial.ran);
}

// One convolution each way; of the gradient of x, which is less at the borders, the sum.
void check_conv(LibraryTrial& trial, Dtype dtype, int64_t images, int64_t channels, int64_t size, int64_t kernel) {
  const double tolerance = dtype == Dtype::bf16 ? 1.0 / 128 : 5e-4;  // an algorithm of Winograd's has no whole numbers
  const int64_t filters = 32, side = size - kernel + 1;
  const ConvParams params;
  View x[] = {trial.operand(dtype, {images, channels, size, size}, true), trial.operand(dtype, {filters, channels, kernel, kernel}, true)};
  View y[] = {trial.operand(dtype, {images, filters, side, side}, true)};
  for (const View& v : x) trial.fill(v, 1);
  trial.run("conv2d", "cudnn", {.in = x, .out = y, .n_in = 2, .n_out = 1, .params = &params}, -7,
            [&](const View& result) { expect_all(trial, result, static_cast<double>(channels * kernel * kernel), tolerance); });
  trial.fill(y[0], 1);
  View back[] = {y[0], x[1]}, weight[] = {y[0], x[0]};
  View dx[] = {trial.operand(dtype, {images, channels, size, size}, true)};
  View dw[] = {trial.operand(dtype, {filters, channels, kernel, kernel}, true)};
  for (const bool accumulate : {false, true}) {
    const double before = accumulate ? static_cast<double>(dx[0].elements()) : 0;
    const double wanted = before + static_cast<double>(images * filters * side * side * channels * kernel * kernel);
    trial.run("conv2d_grad_input", "cudnn", {.in = back, .out = dx, .n_in = 2, .n_out = 1, .params = &params, .accumulate = accumulate}, 1,
              [&](const View& result) {
                const std::vector<float> values = trial.read(result);
                EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0), wanted, tolerance * wanted);
              });
  }
  trial.run("conv2d_grad_weight", "cudnn", {.in = weight, .out = dw, .n_in = 2, .n_out = 1, .params = &params}, -7,
            [&](const View& result) { expect_all(trial, result, static_cast<double>(images * side * side), tolerance); });
  trial.forget();
}

TEST(GpuLibraries, EveryAlgorithmOfCudnnSumsToTheEnd) {
  PERIGEE_SKIP_WITHOUT_GPU();
  LibraryTrial trial;
  for (const int form : {0, 1, 2})
    for (const int64_t kernel : {1, 3}) {
      const Dtype dtype = form == 2 ? Dtype::bf16 : Dtype::f32;
      trial.gpu().queue().tf32 = form == 1;
      SCOPED_TRACE("kernels of " + std::to_string(kernel) + (form == 2 ? " in bf16" : ""));
      if (in_brief()) check_conv(trial, dtype, 1, 2, 4, kernel);
      else check_conv(trial, dtype, 17, 72, 29, kernel);
    }
  std::printf("%d algorithms of cuDNN were tried\n", trial.ran);
}

}  // namespace
}  // namespace perigee
