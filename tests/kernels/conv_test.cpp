// Every host kernel of the convolution family against ref, over random shapes, strides, paddings, dilations, groups and pools. Operands
// are small integers, so that sums are exact in any order: results must be equal, ties of a maximum included.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/ops/conv.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

struct Buffer {
  std::vector<std::byte> bytes;
  View view;

  Buffer(Dtype dtype, std::vector<int64_t> dims, bool channels_last = false) {
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
  Buffer(const Buffer&) = delete;
  void integers(std::mt19937& random, int low, int high) {
    for (int64_t i = 0; i < view.elements(); ++i)
      view.as<float>()[i] = static_cast<float>(std::uniform_int_distribution<int>(low, high)(random));
  }
  std::vector<std::byte> content() const {
    const auto* data = static_cast<const std::byte*>(view.data);
    return {data, data + static_cast<size_t>(view.elements()) * dtype_bytes(view.dtype)};
  }
};

bool runs_here(Isa isa) {
#ifdef __x86_64__
  if (isa == Isa::avx512) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  if (isa == Isa::avx2) return __builtin_cpu_supports("avx2");
#endif
  return isa == Isa::baseline;
}

void run(const Kernel& kernel, KernelCall call) {
  Buffer scratch(Dtype::u8, {kernel.scratch_bytes ? static_cast<int64_t>(kernel.scratch_bytes(call)) : 0});
  Buffer packed(Dtype::u8, {kernel.packed_bytes ? static_cast<int64_t>(kernel.packed_bytes(call)) : 0});
  std::memset(scratch.view.data, 0xFF, static_cast<size_t>(scratch.view.elements()));  // NaN: nothing may be read before it is written
  std::memset(packed.view.data, 0xFF, static_cast<size_t>(packed.view.elements()));
  call.scratch = scratch.view.data;
  call.packed = packed.view.data;
  if (kernel.pack) kernel.pack(call);
  kernel.run(call);
}

struct Case {
  ConvParams p;
  int64_t n, c, h, w, o, kh, kw, oh, ow;
  bool bias, channels_last;

  std::string text() const {
    const auto s = [](int64_t v) { return std::to_string(v); };
    return "x " + s(n) + "x" + s(c) + "x" + s(h) + "x" + s(w) + " w " + s(o) + "x" + s(c / p.groups) + "x" + s(kh) + "x" + s(kw) +
           " stride " + s(p.stride[0]) + "," + s(p.stride[1]) + " padding " + s(p.padding[0]) + "," + s(p.padding[1]) + "," +
           s(p.padding[2]) + "," + s(p.padding[3]) + " dilation " + s(p.dilation[0]) + "," + s(p.dilation[1]) + " groups " + s(p.groups) +
           " pool " + s(p.pool[0]) + "," + s(p.pool[1]) + (p.relu ? " relu" : "") + (bias ? " bias" : "") +
           (channels_last ? "" : " x is contiguous");
  }
};

class Cases {
 public:
  explicit Cases(unsigned seed) : random_(seed) {}

  Case next() {
    for (;;) {
      Case c{};
      c.n = pick(1, 3);
      c.p.groups = pick(0, 3) == 0 ? pick(1, 4) : 1;
      const bool depthwise = pick(0, 9) == 0;
      c.c = c.p.groups * channels(24);
      c.o = c.p.groups * channels(60);
      if (depthwise) c.p.groups = static_cast<int32_t>(c.c), c.o = c.c * pick(1, 2);
      c.h = pick(1, 17), c.w = pick(1, 17);
      c.kh = pick(1, 5), c.kw = pick(1, 5);
      for (int& s : c.p.stride) s = pick(1, 3);
      if (pick(0, 1))
        for (int& side : c.p.padding) side = pick(0, 2);
      if (pick(0, 3) == 0)
        for (int& d : c.p.dilation) d = pick(1, 3);
      for (int& q : c.p.pool) q = pick(1, 4);
      if (pick(0, 1)) c.p.pool[0] = c.p.pool[1] = pick(2, 4);
      c.p.relu = pick(0, 1);
      c.bias = pick(0, 1);
      c.channels_last = pick(0, 3) != 0;
      const int64_t high = c.h + c.p.padding[0] + c.p.padding[1] - c.p.dilation[0] * (c.kh - 1) - 1;
      const int64_t wide = c.w + c.p.padding[2] + c.p.padding[3] - c.p.dilation[1] * (c.kw - 1) - 1;
      if (high < 0 || wide < 0) continue;
      c.oh = high / c.p.stride[0] + 1, c.ow = wide / c.p.stride[1] + 1;
      if (c.oh < c.p.pool[0] || c.ow < c.p.pool[1]) continue;
      return c;
    }
  }
  std::mt19937& random() { return random_; }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  int64_t channels(int most) { return pick(0, 2) == 0 ? 16 * pick(1, 3) : pick(1, most); }

  std::mt19937 random_;
};

const Kernel* reference(const char* op) {
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i)
      if (list.first[i].backend == Backend::ref && std::strcmp(list.first[i].op, op) == 0) return &list.first[i];
  return nullptr;
}

// Runs ref and then every host kernel of `op`; returns how many took the call.
int compare(const char* op, const Case& c, const std::vector<const Buffer*>& in, const std::vector<Buffer*>& out, bool accumulate,
            std::set<std::string>* seen) {
  std::vector<View> views;
  for (const Buffer* buffer : in) views.push_back(buffer ? buffer->view : View{});
  for (const Buffer* buffer : out) views.push_back(buffer->view);
  KernelCall call{.in = views.data(), .out = views.data() + in.size(), .n_in = static_cast<int>(in.size())};
  call.n_out = static_cast<int>(out.size());
  call.params = &c.p;
  call.accumulate = accumulate;
  const auto reset = [&] {
    for (Buffer* buffer : out)
      for (int64_t i = 0; i < buffer->view.elements(); ++i)
        if (buffer->view.dtype == Dtype::f32) buffer->view.as<float>()[i] = static_cast<float>(i % 7);
  };
  reset();
  run(*reference(op), call);
  std::vector<std::vector<std::byte>> wanted;
  for (const Buffer* buffer : out) wanted.push_back(buffer->content());
  int took = 0;
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (kernel.backend != Backend::cpu || std::strcmp(kernel.op, op) != 0 || !runs_here(kernel.isa)) continue;
      if (accumulate && !kernel.accumulates) continue;
      if (kernel.decline && kernel.decline(call)) continue;
      reset();
      run(kernel, call);
      ++took;
      const std::string name = std::string(kernel.name) + " isa " + std::to_string(static_cast<int>(kernel.isa));
      seen->insert(name);
      for (size_t o = 0; o < out.size(); ++o) {
        if (out[o]->view.dtype == Dtype::u8) {
          EXPECT_EQ(out[o]->content(), wanted[o]) << name << " output " << o << ": " << c.text();
          continue;
        }
        const auto* expected = reinterpret_cast<const float*>(wanted[o].data());
        for (int64_t e = 0; e < out[o]->view.elements(); ++e)
          if (out[o]->view.as<float>()[e] != expected[e]) {
            ADD_FAILURE() << name << " output " << o << " element " << e << " is " << out[o]->view.as<float>()[e] << ", ref gives "
                          << expected[e] << ": " << c.text();
            break;
          }
      }
    }
  return took;
}

// Each host kernel of the machine's instruction sets must have been exercised, or the test tests nothing.
void expect_all_seen(const std::set<std::string>& ops, const std::set<std::string>& seen) {
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (kernel.backend != Backend::cpu || !runs_here(kernel.isa) || !ops.contains(kernel.op)) continue;
      EXPECT_TRUE(seen.contains(std::string(kernel.name) + " isa " + std::to_string(static_cast<int>(kernel.isa))))
          << kernel.name << " was never run";
    }
}

TEST(Conv, HostKernelsEqualRef) {
  Cases cases(1);
  std::set<std::string> seen;
  for (int i = 0; i < 400 && !HasFailure(); ++i) {
    const Case c = cases.next();
    Buffer x(Dtype::f32, {c.n, c.c, c.h, c.w}, c.channels_last), w(Dtype::f32, {c.o, c.c / c.p.groups, c.kh, c.kw}), b(Dtype::f32, {c.o});
    Buffer y(Dtype::f32, {c.n, c.o, c.oh, c.ow}, true), dy(Dtype::f32, {c.n, c.o, c.oh, c.ow}, c.channels_last);
    Buffer dx(Dtype::f32, {c.n, c.c, c.h, c.w}, true), dw(Dtype::f32, {c.o, c.c / c.p.groups, c.kh, c.kw});
    x.integers(cases.random(), -3, 3), w.integers(cases.random(), -3, 3), b.integers(cases.random(), -20, 20),
        dy.integers(cases.random(), -3, 3);
    compare("conv2d", c, {&x, &w, c.bias ? &b : nullptr}, {&y}, false, &seen);
    for (const bool accumulate : {false, true}) {
      compare("conv2d_grad_input", c, {&dy, &w}, {&dx}, accumulate, &seen);
      compare("conv2d_grad_weight", c, {&dy, &x}, {&dw}, accumulate, &seen);
    }
  }
  expect_all_seen({"conv2d", "conv2d_grad_input", "conv2d_grad_weight"}, seen);
}

TEST(Conv, PooledHostKernelsEqualRef) {
  Cases cases(2);
  std::set<std::string> seen;
  for (int i = 0; i < 400 && !HasFailure(); ++i) {
    const Case c = cases.next();
    const int64_t ph = c.oh / c.p.pool[0], pw = c.ow / c.p.pool[1];
    Buffer x(Dtype::f32, {c.n, c.c, c.h, c.w}, c.channels_last), w(Dtype::f32, {c.o, c.c / c.p.groups, c.kh, c.kw}), b(Dtype::f32, {c.o});
    Buffer y(Dtype::f32, {c.n, c.o, ph, pw}, true), argmax(Dtype::u8, {c.n, c.o, ph, pw}, true), dy(Dtype::f32, {c.n, c.o, ph, pw}, true);
    Buffer dx(Dtype::f32, {c.n, c.c, c.h, c.w}, true), dw(Dtype::f32, {c.o, c.c / c.p.groups, c.kh, c.kw}), db(Dtype::f32, {c.o});
    x.integers(cases.random(), -3, 3), w.integers(cases.random(), -3, 3), b.integers(cases.random(), -20, 20),
        dy.integers(cases.random(), -3, 3);
    compare("conv2d_pool", c, {&x, &w, c.bias ? &b : nullptr}, {&y, &argmax}, false, &seen);
    for (const bool accumulate : {false, true}) {
      compare("conv2d_pool_grad_input", c, {&dy, &y, &argmax, &w}, {&dx}, accumulate, &seen);
      compare("conv2d_pool_grad_weight", c, {&dy, &y, &argmax, &x}, {&dw, &db}, accumulate, &seen);
    }
  }
  expect_all_seen({"conv2d_pool", "conv2d_pool_grad_input", "conv2d_pool_grad_weight"}, seen);
}

}  // namespace
}  // namespace perigee
