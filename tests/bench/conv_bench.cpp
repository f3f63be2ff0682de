// Microseconds an image of the convolution kernels, and their share of the FMA peak (FLOPs of the direct algorithm; kernels behind a
// max-pool do a fraction of them, so they may pass 100 %).  usage: conv_bench [filter] [batch]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/ops/conv.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct Layer {
  const char* name;
  int c, h, o, k, stride, padding, pool;
};

const Layer kLayers[] = {
    {"lenet.conv1", 1, 28, 20, 5, 1, 0, 2},  {"lenet.conv2", 20, 12, 50, 5, 2, 0, 2}, {"held.conv1", 3, 32, 24, 3, 1, 0, 3},
    {"held.conv2", 24, 10, 36, 4, 1, 1, 3},  {"held.conv3", 8, 20, 40, 3, 1, 1, 2},   {"res.stem", 3, 32, 16, 3, 1, 1, 0},
    {"res16", 16, 32, 16, 3, 1, 1, 0},       {"res32", 32, 16, 32, 3, 1, 1, 0},       {"res64", 64, 8, 64, 3, 1, 1, 0},
    {"res.16-32s2", 16, 32, 32, 3, 2, 1, 0}, {"res.32-64s2", 32, 16, 64, 3, 2, 1, 0}, {"res.16-32x1", 16, 32, 32, 1, 2, 0, 0},
    {"res.32-64x1", 32, 16, 64, 1, 2, 0, 0},
};

struct Buffer {
  std::vector<std::byte> bytes;
  View view;

  Buffer() = default;
  Buffer(Dtype dtype, std::vector<int64_t> dims, bool channels_last) : bytes(64) {
    view.dtype = dtype;
    view.rank = static_cast<int>(dims.size());
    int64_t n = 1;
    for (int i = view.rank - 1; i >= 0; --i) view.dims[i] = dims[static_cast<size_t>(i)], view.strides[i] = n, n *= view.dims[i];
    if (channels_last) {
      const int64_t strides[4] = {dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]};
      std::memcpy(view.strides, strides, sizeof strides);
    }
    bytes.resize(static_cast<size_t>(n) * dtype_bytes(dtype) + 64);
    view.data = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64);
  }
  Buffer& fill(float mean, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(mean, 1.0f);
    for (int64_t i = 0; i < view.elements(); ++i) view.as<float>()[i] = normal(random);
    return *this;
  }
};

// CPU time of this thread, so that others on the machine disturb it through caches only.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double seconds(const std::function<void()>& f) {
  f();
  double best = 1e9;
  for (int round = 0; round < 7; ++round) {
    const double start = now();
    int runs = 0;
    double elapsed = 0;
    do {
      f();
      ++runs;
      elapsed = now() - start;
    } while (elapsed < 0.004);
    best = std::min(best, elapsed / runs);
  }
  return best;
}

#ifdef __x86_64__
__attribute__((target("avx512f"))) void fma_loop(long n) {
  for (long i = 0; i < n; ++i)
    asm volatile(
        "vfmadd231ps %%zmm0,%%zmm0,%%zmm1\n vfmadd231ps %%zmm0,%%zmm0,%%zmm2\n vfmadd231ps %%zmm0,%%zmm0,%%zmm3\n"
        "vfmadd231ps %%zmm0,%%zmm0,%%zmm4\n vfmadd231ps %%zmm0,%%zmm0,%%zmm5\n vfmadd231ps %%zmm0,%%zmm0,%%zmm6\n"
        "vfmadd231ps %%zmm0,%%zmm0,%%zmm7\n vfmadd231ps %%zmm0,%%zmm0,%%zmm8\n vfmadd231ps %%zmm0,%%zmm0,%%zmm9\n"
        "vfmadd231ps %%zmm0,%%zmm0,%%zmm10\n vfmadd231ps %%zmm0,%%zmm0,%%zmm11\n vfmadd231ps %%zmm0,%%zmm0,%%zmm12\n" ::
            : "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12");
}
double peak_flops() {
  if (!__builtin_cpu_supports("avx512f")) return 0;
  const long n = 100000;
  return 12.0 * 32 * static_cast<double>(n) / seconds([] { fma_loop(100000); });
}
#else
double peak_flops() { return 0; }
#endif

bool runs_here(Isa isa) {
#ifdef __x86_64__
  if (isa == Isa::avx512) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  if (isa == Isa::avx2) return __builtin_cpu_supports("avx2");
#endif
  return isa == Isa::baseline;
}

void bench(const char* op, const Layer& layer, const ConvParams& params, const std::vector<Buffer*>& in, const std::vector<Buffer*>& out,
           double flops, double peak, const char* filter) {
  std::vector<View> views;
  for (const auto* buffers : {&in, &out})
    for (const Buffer* buffer : *buffers) views.push_back(buffer->view);
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (std::strcmp(kernel.op, op) != 0 || kernel.backend != Backend::cpu || !runs_here(kernel.isa)) continue;
      KernelCall call{.in = views.data(), .out = views.data() + in.size(), .n_in = static_cast<int>(in.size())};
      call.n_out = static_cast<int>(out.size());
      call.params = &params;
      const std::string line = std::string(layer.name) + " " + kernel.name +
                               (kernel.isa == Isa::avx512 ? " avx512"
                                : kernel.isa == Isa::avx2 ? " avx2"
                                                          : "");
      if (filter && line.find(filter) == std::string::npos) continue;
      const char* reason = kernel.decline ? kernel.decline(call) : nullptr;
      if (reason) {
        std::printf("%-64s declines: %s\n", line.c_str(), reason);
        continue;
      }
      Buffer scratch(Dtype::u8, {kernel.scratch_bytes ? static_cast<int64_t>(kernel.scratch_bytes(call)) : 0}, false);
      Buffer packed(Dtype::u8, {kernel.packed_bytes ? static_cast<int64_t>(kernel.packed_bytes(call)) : 0}, false);
      call.scratch = scratch.view.data;
      call.packed = packed.view.data;
      if (kernel.pack) kernel.pack(call);
      const double images = static_cast<double>(in[0]->view.dims[0]);
      const double pack = kernel.pack ? seconds([&] { kernel.pack(call); }) : 0;
      const double run = seconds([&] { kernel.run(call); });
      std::printf("%-64s %8.3f us/image %7.1f GFLOP/s %5.1f %%  pack %.2f us\n", line.c_str(), run / images * 1e6, flops / run * 1e-9,
                  100 * flops / run / peak, pack * 1e6);
      std::fflush(stdout);
    }
}

void bench_layer(const Layer& l, int64_t n, double peak, const char* filter) {
  const int64_t oh = (l.h + 2 * l.padding - l.k) / l.stride + 1, ph = l.pool ? oh / l.pool : oh;
  ConvParams p;
  p.stride[0] = p.stride[1] = l.stride;
  for (int& side : p.padding) side = l.padding;
  p.pool[0] = p.pool[1] = l.pool ? l.pool : 1;
  p.relu = l.pool != 0;
  Buffer x(Dtype::f32, {n, l.c, l.h, l.h}, true), w(Dtype::f32, {l.o, l.c, l.k, l.k}, false), b(Dtype::f32, {l.o}, false);
  Buffer y(Dtype::f32, {n, l.o, ph, ph}, true), argmax(Dtype::u8, {n, l.o, ph, ph}, true), dy(Dtype::f32, {n, l.o, ph, ph}, true);
  Buffer dx(Dtype::f32, {n, l.c, l.h, l.h}, true), dw(Dtype::f32, {l.o, l.c, l.k, l.k}, false), db(Dtype::f32, {l.o}, false);
  x.fill(0, 1), w.fill(0, 2), dy.fill(0, 3), b.fill(0, 4);
  const double flops = 2.0 * static_cast<double>(n * oh * oh * l.o * l.c * l.k * l.k);
  if (!l.pool) {
    bench("conv2d", l, p, {&x, &w, &b}, {&y}, flops, peak, filter);
    bench("conv2d_grad_input", l, p, {&dy, &w}, {&dx}, flops, peak, filter);
    bench("conv2d_grad_weight", l, p, {&dy, &x}, {&dw}, flops, peak, filter);
    return;
  }
  bench("conv2d_pool", l, p, {&x, &w, &b}, {&y, &argmax}, flops, peak, filter);
  // About 60 % of the pooled outputs are alive, as in a trained network.
  y.fill(0.25f, 5);
  std::mt19937 random(6);
  for (int64_t i = 0; i < argmax.view.elements(); ++i)
    argmax.view.as<uint8_t>()[i] = static_cast<uint8_t>(random() % static_cast<unsigned>(l.pool * l.pool));
  bench("conv2d_pool_grad_input", l, p, {&dy, &y, &argmax, &w}, {&dx}, flops, peak, filter);
  bench("conv2d_pool_grad_weight", l, p, {&dy, &y, &argmax, &x}, {&dw, &db}, flops, peak, filter);
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  const char* filter = argc > 1 ? argv[1] : nullptr;
  const int64_t batch = argc > 2 ? std::atoll(argv[2]) : 16;
  const double peak = perigee::peak_flops();
  std::printf("FMA peak %.1f GFLOP/s, batch %lld\n", peak * 1e-9, static_cast<long long>(batch));
  for (const perigee::Layer& layer : perigee::kLayers) perigee::bench_layer(layer, batch, peak, filter);
  return 0;
}
