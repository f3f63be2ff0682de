// The speed of our kernels on GPU 0 beside a plain copy: Adam over 100 M parameters, threshold encoding of 100 M values. Prints one JSON
// object: gigabytes a second that each has to move at least, over the time it took; median of the repeats. tests/gpu/bench.py runs it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>

#include "cluster/codec/cuda_codec.h"
#include "kernels/cuda/runtime/update.h"
#include "kernels/flat_view.h"
#include "src/device/gpu.h"

namespace perigee {
namespace {

int64_t elements = 100'000'000;  // --elements; fewer prove the program
size_t bytes_of_all() { return static_cast<size_t>(elements) * sizeof(float); }
constexpr int kCalls = 20, kRepeats = 7;

// Bytes a second when a call moves `bytes`.
double rate(Gpu& gpu, double bytes, const std::function<void()>& queue) {
  std::vector<double> rates;
  for (int repeat = -1; repeat < kRepeats; ++repeat) {  // the first is for warmth
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) queue();
    gpu.wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (repeat >= 0) rates.push_back(bytes * kCalls / took.count());
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

std::vector<float> normal_values() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1e-2f);
  std::vector<float> some(1 << 20);
  for (float& x : some) x = normal(random);
  std::vector<float> values(elements);
  for (size_t i = 0; i < values.size(); i += some.size())
    std::copy_n(some.begin(), std::min(some.size(), values.size() - i), values.begin() + static_cast<std::ptrdiff_t>(i));
  return values;
}

const Kernel& kernel_of(Gpu& gpu, std::string_view op) {
  for (const KernelList& list : gpu.module().kernels())
    for (size_t i = 0; i < list.count; ++i)
      if (op == list.first[i].op) return list.first[i];
  throw Error(ErrorKind::usage, {.where = "kernel_bench", .what = "no CUDA kernel of " + std::string(op)});
}

double copy_rate(Gpu& gpu, const GpuMemory& from, const GpuMemory& to) {
  return rate(gpu, 2.0 * static_cast<double>(bytes_of_all()), [&] { gpu.copy(to.data(), from.data(), bytes_of_all()); });
}

// Gradient read; parameter and two states read and written: 28 bytes an element.
double adam_rate(Gpu& gpu, const GpuMemory& gradient) {
  const GpuMemory parameter = gpu.allocate(bytes_of_all(), "parameters"), m = gpu.allocate(bytes_of_all(), "m"),
                  v = gpu.allocate(bytes_of_all(), "v");
  for (const GpuMemory* block : {&parameter, &m, &v}) gpu.clear(block->data(), bytes_of_all());
  struct {
    CudaUpdate head{.windows = 1};
    CudaUpdateWindow window{0, elements, {.lr = 1e-3, .c = {0.9, 0.1, 0.999, 0.001, 1e-8, 1}}};
  } image;
  const GpuMemory params = gpu.allocate(sizeof image, "update");
  gpu.upload(params.data(), &image, sizeof image);
  const auto view = [](const GpuMemory& memory) { return flat_view(memory.data(), elements, Dtype::f32); };
  const View in[] = {view(gradient)}, out[] = {view(parameter), view(m), view(v)};
  const KernelCall call{.in = in, .out = out, .n_in = 1, .n_out = 3, .params = params.data(), .queue = &gpu.queue()};
  const Kernel& adam = kernel_of(gpu, "update_adam");
  const double result = rate(gpu, 28.0 * static_cast<double>(elements), [&] { adam.run(call); });
  gpu.check_queue("update_adam");
  return result;
}

// Values and residual read, what is left over written to another block, in turns: 12 bytes an element; what is sent is small beside them. A
// decay of 0 keeps the share that is sent from growing while the same values come again.
double threshold_rate(Gpu& gpu, const GpuMemory& values, float tau) {
  const CudaThreshold how{.tau = tau, .low = 0, .high = 1, .rate = 1};
  const auto& codecs = *gpu.module().codecs;
  const GpuMemory residual = gpu.allocate(bytes_of_all(), "residual"), next = gpu.allocate(bytes_of_all(), "what is left over");
  const GpuMemory body = gpu.allocate(bytes_of_all() + bytes_of_all() / 4, "body");
  const GpuMemory scratch = gpu.allocate(codecs.threshold_scratch(elements), "scratch"),
                  record = gpu.allocate(sizeof(CudaEncoded), "record");
  const GpuMemory state = gpu.allocate(2 * sizeof(float), "state");
  gpu.clear(residual.data(), bytes_of_all());
  gpu.clear(state.data(), 2 * sizeof(float));
  CudaThreshold call = how;
  call.state = reinterpret_cast<float*>(state.data());
  call.next = reinterpret_cast<float*>(next.data());
  const float largest = 3e38f;
  CudaEncodeCall encode{.x = reinterpret_cast<const float*>(values.data()),
                        .residual = reinterpret_cast<float*>(residual.data()),
                        .decay = 0,
                        .n = elements,
                        .scratch = scratch.data(),
                        .body = body.data(),
                        .encoded = reinterpret_cast<CudaEncoded*>(record.data())};
  std::memcpy(&encode.limit, &largest, sizeof largest);
  int status = 0;
  const double result = rate(gpu, 12.0 * static_cast<double>(elements), [&] {
    status |= codecs.threshold_encode(encode, call, static_cast<CudaStream>(gpu.queue().stream));
    std::swap(encode.residual, call.next);
  });
  gpu.check(status, "threshold encode");
  return result;
}

void bench() {
  Gpu gpu(0, "kernel_bench");
  const GpuMemory values = gpu.allocate(bytes_of_all(), "values"), other = gpu.allocate(bytes_of_all(), "copy");
  gpu.upload(values.data(), normal_values().data(), bytes_of_all());
  const double copy = copy_rate(gpu, values, other), adam = adam_rate(gpu, values);
  // One value of a thousand is sent, and one of a hundred: what a normal distribution has beyond so many deviations.
  const double threshold = threshold_rate(gpu, values, 3.2905e-2f), dense = threshold_rate(gpu, values, 2.5758e-2f);
  std::printf(R"({"device": "%s", "copy_gb_s": %.1f, "adam_gb_s": %.1f, "threshold_gb_s": %.1f, "threshold_dense_gb_s": %.1f})"
              "\n",
              gpu.properties().name, copy * 1e-9, adam * 1e-9, threshold * 1e-9, dense * 1e-9);
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::strcmp(argv[1], "--elements") == 0) perigee::elements = std::max(1LL, std::atoll(argv[2]));
    std::string why;
    if (perigee::Gpu::count(&why) == 0) {
      std::fprintf(stderr, "no GPU: %s\n", why.c_str());
      return 77;
    }
    perigee::bench();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
