// Pooling of channels-last images: lanes are channels. p-norms are left to the reference kernel.
#include "kernels/ops/pool.h"

#include "kernels/cpu/conv_simd.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

#ifdef PERIGEE_CONV_SIMD
constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : Isa::avx2;

typedef int32_t Places __attribute__((vector_size(kLanes * 4)));
typedef uint8_t Bytes __attribute__((vector_size(kLanes)));

const char* decline(const KernelCall& call) {
  const auto& p = call.as<PoolParams>();
  if (p.kind == PoolKind::pnorm) return "p-norms are left to ref";
  if (p.kernel[0] * static_cast<int64_t>(p.kernel[1]) > 256 && p.kind == PoolKind::max) return "windows of at most 256 elements";
  for (int i = 0; i < call.n_in; ++i)
    if (!call.in[i].channels_last()) return "operands must be channels-last";
  for (int i = 0; i < call.n_out; ++i)
    if (!call.out[i].channels_last()) return "results must be channels-last";
  return call.out[0].dtype == Dtype::f32 ? nullptr : "f32 only";
}

// The part of one axis of a window that lies inside the image: elements [first, end) at first_place, first_place + dilation, ...
struct Span {
  int64_t first, end;
  int64_t origin;  // place of element 0, perhaps outside
};

Span span(const PoolParams& p, int axis, int64_t i, int64_t size) {
  const int64_t origin = i * p.stride[axis] - p.padding[2 * axis], step = p.dilation[axis];
  int64_t first = origin < 0 ? (-origin + step - 1) / step : 0, end = p.kernel[axis];
  if (origin + (end - 1) * step >= size) end = origin >= size ? 0 : (size - 1 - origin) / step + 1;
  if (first > end) first = end;
  return {first, end, origin};
}

float scale(const PoolParams& p, const Span& rows, const Span& columns) {
  if (p.kind != PoolKind::average) return 1.0f;
  const int64_t inside = (rows.end - rows.first) * (columns.end - columns.first);
  const int64_t count = p.count_include_pad ? int64_t{p.kernel[0]} * p.kernel[1] : inside;
  return count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
}

// Calls body(n, i, j, rows, columns, index of the output pixel) for each output pixel of `image`, pooled to oh x ow.
template <class F>
void each_pixel(const PoolParams& p, const View& image, const View& pooled, F body) {
  int64_t pixel = 0;
  for (int64_t n = 0; n < pooled.dims[0]; ++n)
    for (int64_t i = 0; i < pooled.dims[2]; ++i) {
      const Span rows = span(p, 0, i, image.dims[2]);
      for (int64_t j = 0; j < pooled.dims[3]; ++j, ++pixel) body(n, rows, span(p, 1, j, image.dims[3]), pixel);
    }
}

// Calls body(element's place in the window, its offset in floats) for what lies inside.
template <class F>
void each_element(const PoolParams& p, const View& image, const Span& rows, const Span& columns, F body) {
  const int64_t c = image.dims[1], w = image.dims[3];
  for (int64_t r = rows.first; r < rows.end; ++r) {
    const int64_t row = (rows.origin + r * p.dilation[0]) * w;
    for (int64_t s = columns.first; s < columns.end; ++s)
      body(static_cast<int>(r * p.kernel[1] + s), (row + columns.origin + s * p.dilation[1]) * c);
  }
}

void store_places(uint8_t* to, Places places, int lanes) {
  const Bytes bytes = __builtin_convertvector(places, Bytes);
  std::memcpy(to, &bytes, static_cast<size_t>(lanes));
}

Places load_places(const uint8_t* from, int lanes) {
  Bytes bytes = {};
  std::memcpy(&bytes, from, static_cast<size_t>(lanes));
  return __builtin_convertvector(bytes, Places);
}

void pool2d(const KernelCall& call) {
  const auto& p = call.as<PoolParams>();
  const View& x = call.in[0];
  const int64_t c = x.dims[1], image = c * x.dims[2] * x.dims[3];
  each_pixel(p, x, call.out[0], [&](int64_t n, const Span& rows, const Span& columns, int64_t pixel) {
    const float* const from = x.as<float>() + n * image;
    const V factor = v_set(scale(p, rows, columns));
    for (int64_t o = 0; o < c; o += kLanes) {
      const int lanes = c - o < kLanes ? static_cast<int>(c - o) : kLanes;
      float* const y = call.out[0].as<float>() + pixel * c + o;
      V best = v_zero();
      if (p.kind != PoolKind::max) {
        each_element(p, x, rows, columns, [&](int, int64_t at) { best = v_add(best, v_load(from + at + o, lanes)); });
        v_store(y, best * factor, lanes);
        continue;
      }
      Places where = {};
      bool first = true;
      each_element(p, x, rows, columns, [&](int q, int64_t at) {
        const V v = v_load(from + at + o, lanes);
        const Places place = Places{} + q, larger = first ? Places{} - 1 : Places(v > best) | Places(v != v);  // NaN wins and stays
        best = larger ? v : best;
        where = larger ? place : where;
        first = false;
      });
      v_store(y, best, lanes);
      if (call.n_out > 1 && call.out[1].data) store_places(call.out[1].as<uint8_t>() + pixel * c + o, where, lanes);
    }
  });
}

void pool2d_grad(const KernelCall& call) {
  const auto& p = call.as<PoolParams>();
  const View &dy = call.in[0], &dx = call.out[0];
  const int64_t c = dx.dims[1], image = c * dx.dims[2] * dx.dims[3];
  if (!call.accumulate) std::memset(dx.data, 0, static_cast<size_t>(dx.elements()) * sizeof(float));
  each_pixel(p, dx, dy, [&](int64_t n, const Span& rows, const Span& columns, int64_t pixel) {
    float* const to = dx.as<float>() + n * image;
    const V factor = v_set(scale(p, rows, columns));
    for (int64_t o = 0; o < c; o += kLanes) {
      const int lanes = c - o < kLanes ? static_cast<int>(c - o) : kLanes;
      const V g = v_load(dy.as<float>() + pixel * c + o, lanes) * factor;
      Places winner = {};
      if (p.kind == PoolKind::max) winner = load_places(call.in[1].as<uint8_t>() + pixel * c + o, lanes);
      each_element(p, dx, rows, columns, [&](int q, int64_t at) {
        V add = g;
        if (p.kind == PoolKind::max) add = (winner == Places{} + q) ? g : v_zero();
        v_store(to + at + o, v_add(v_load(to + at + o, lanes), add), lanes);
      });
    }
  });
}

const Kernel kKernels[] = {
    {.op = "pool2d", .name = "cpu_pool2d", .backend = Backend::cpu, .isa = kIsa, .decline = decline, .run = pool2d},
    {.op = "pool2d_grad",
     .name = "cpu_pool2d_grad",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline,
     .run = pool2d_grad,
     .accumulates = true},
};
#endif

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(pool);
#ifdef PERIGEE_CONV_SIMD
const KernelList PERIGEE_CPU_KERNELS(pool) = kernel_list(kKernels);
#else
const KernelList PERIGEE_CPU_KERNELS(pool) = {};
#endif

}  // namespace perigee
