// Depthwise convolution (groups = input channels = output channels) and its gradients, channels-last: lanes are channels, and each tap
// is one multiplication of a pixel by that tap's weights. Windows are clipped at the image's border instead of padding it.
#include "kernels/cpu/conv_geometry.h"
#include "kernels/cpu/conv_transpose.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

#ifdef PERIGEE_CONV_SIMD
constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : Isa::avx2;

const char* decline_shape(const KernelCall& call, const View& x, const View& w) {
  const auto& p = call.as<ConvParams>();
  if (call.out[0].dtype != Dtype::f32) return "f32 only";
  if (p.groups != x.dims[1] || w.dims[0] != x.dims[1]) return "depthwise with one filter a channel only";
  ConvGeometry g;
  return conv_geometry(x, w, p, &g) ? nullptr : "the window has too many segments, or sizes are too large";
}

const char* decline_forward(const KernelCall& call) {
  if (!call.in[0].channels_last() || !call.out[0].channels_last()) return "images must be channels-last";
  return decline_shape(call, call.in[0], call.in[1]);
}
const char* decline_input(const KernelCall& call) {
  if (!call.in[0].channels_last() || !call.out[0].channels_last()) return "images must be channels-last";
  return decline_shape(call, call.out[0], call.in[1]);
}
const char* decline_weight(const KernelCall& call) {
  if (!call.in[0].channels_last() || !call.in[1].channels_last()) return "images must be channels-last";
  if (!call.out[0].contiguous()) return "the weight gradient must be contiguous";
  return decline_shape(call, call.in[1], call.out[0]);
}

// Weights by tap: [row][column][channel], then the bias.
size_t packed_bytes(const KernelCall& call) {
  const View& w = call.in[1];
  return static_cast<size_t>(w.elements() + w.dims[0] + stage_floats(w)) * sizeof(float);
}

void pack(const KernelCall& call) {
  const View& w = call.in[1];
  const int64_t channels = w.dims[0], taps = w.dims[2] * w.dims[3];
  auto* const out = static_cast<float*>(call.packed);
  const float* const from = canonical(w, out + w.elements() + channels);
  transpose<false>(
      channels, taps, [&](int64_t c) { return from + c * taps; }, [&](int64_t tap, int64_t c) { return out + tap * channels + c; });
  const bool bias = call.n_in > 2 && call.in[2].data;
  for (int64_t c = 0; c < channels; ++c) out[w.elements() + c] = bias ? call.in[2].as<float>()[c * call.in[2].strides[0]] : 0.0f;
}

// Windows along one axis: out place i sees in place i * stride + k * dilation - before.
struct Axis {
  int64_t stride, before, dilation, kernel, in, out;
};

Axis axis_of(const ConvParams& p, const ConvGeometry& g, int axis) {
  return {p.stride[axis], p.padding[2 * axis], p.dilation[axis], axis ? g.kw : g.kh, axis ? g.w : g.h, axis ? g.ow : g.oh};
}

// Calls body(tap, out place) for the windows that see in place `at`.
template <class F>
void windows_over(const Axis& a, int64_t at, F body) {
  for (int64_t k = 0; k < a.kernel; ++k) {
    const int64_t shifted = at + a.before - k * a.dilation;
    if (shifted >= 0 && shifted % a.stride == 0 && shifted / a.stride < a.out) body(k, shifted / a.stride);
  }
}

// Calls body(tap, in place) for what the window at out place `at` sees.
template <class F>
void window_under(const Axis& a, int64_t at, F body) {
  for (int64_t k = 0; k < a.kernel; ++k) {
    const int64_t place = at * a.stride + k * a.dilation - a.before;
    if (place >= 0 && place < a.in) body(k, place);
  }
}

// to[i, j, c] = bias + sum over taps of from[place, place, c] * w[tap, c], where `taps` enumerates the places seen from (i, j).
template <class Taps>
void gather(const Axis& rows, const Axis& columns, int64_t to_h, int64_t to_w, int64_t from_w, int64_t c, const float* w, const float* bias,
            V floor, const float* from, float* to, Taps taps) {
  for (int64_t i = 0; i < to_h; ++i)
    for (int64_t j = 0; j < to_w; ++j, to += c)
      for (int64_t o = 0; o < c; o += kLanes) {
        const int lanes = c - o < kLanes ? static_cast<int>(c - o) : kLanes;
        V sum = bias ? v_load(bias + o, lanes) : v_zero();
        taps(rows, i, [&](int64_t kr, int64_t row) {
          taps(columns, j, [&](int64_t kc, int64_t column) {
            sum = v_fma(v_load(from + (row * from_w + column) * c + o, lanes), v_load(w + (kr * columns.kernel + kc) * c + o, lanes), sum);
          });
        });
        v_store(to + o, v_max(floor, sum), lanes);
      }
}

void forward(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  ConvGeometry g;
  conv_geometry(call.in[0], call.in[1], p, &g);
  const auto* const w = static_cast<const float*>(call.packed);
  const V floor = v_set(p.relu ? 0.0f : -__builtin_inff());
  for (int64_t n = 0; n < g.n; ++n)
    gather(axis_of(p, g, 0), axis_of(p, g, 1), g.oh, g.ow, g.w, g.c, w, w + call.in[1].elements(), floor,
           call.in[0].as<float>() + n * g.h * g.w * g.c, call.out[0].as<float>() + n * g.oh * g.ow * g.c,
           [](const Axis& a, int64_t at, auto body) { window_under(a, at, body); });
}

void grad_input(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  ConvGeometry g;
  conv_geometry(call.out[0], call.in[1], p, &g);
  for (int64_t n = 0; n < g.n; ++n)
    gather(axis_of(p, g, 0), axis_of(p, g, 1), g.h, g.w, g.ow, g.c, static_cast<const float*>(call.packed), nullptr,
           v_set(-__builtin_inff()), call.in[0].as<float>() + n * g.oh * g.ow * g.c, call.out[0].as<float>() + n * g.h * g.w * g.c,
           [](const Axis& a, int64_t at, auto body) { windows_over(a, at, body); });
}

// Sum over examples and positions of dy * x for one tap and one vector of channels.
V tap_sum(const ConvGeometry& g, const Axis& rows, const Axis& columns, int64_t kr, int64_t kc, const float* dy, const float* x,
          int lanes) {
  V sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
  const int64_t shift = kc * columns.dilation - columns.before, step = columns.stride;
  const int64_t first = shift < 0 ? (-shift + step - 1) / step : 0;
  const int64_t end = shift >= g.w ? first : (g.w - 1 - shift) / step + 1 < g.ow ? (g.w - 1 - shift) / step + 1 : g.ow;
  for (int64_t n = 0; n < g.n; ++n)
    for (int64_t i = 0; i < g.oh; ++i) {
      const int64_t row = i * rows.stride + kr * rows.dilation - rows.before;
      if (row < 0 || row >= g.h) continue;
      const float* const g_row = dy + (n * g.oh + i) * g.ow * g.c;
      const float* const x_row = x + ((n * g.h + row) * g.w + shift) * g.c;
      int64_t j = first;
      for (; j + 4 <= end; j += 4)
#pragma GCC unroll 4
        for (int u = 0; u < 4; ++u)
          sum[u] = v_fma(v_load(g_row + (j + u) * g.c, lanes), v_load(x_row + (j + u) * step * g.c, lanes), sum[u]);
      for (; j < end; ++j) sum[0] = v_fma(v_load(g_row + j * g.c, lanes), v_load(x_row + j * step * g.c, lanes), sum[0]);
    }
  return v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3]));
}

void grad_weight(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  ConvGeometry g;
  conv_geometry(call.in[1], call.out[0], p, &g);
  const Axis rows = axis_of(p, g, 0), columns = axis_of(p, g, 1);
  const int64_t taps = g.kh * g.kw;
  for (int64_t o = 0; o < g.c; o += kLanes) {
    const int lanes = g.c - o < kLanes ? static_cast<int>(g.c - o) : kLanes;
    for (int64_t tap = 0; tap < taps; ++tap) {
      alignas(64) float sums[kLanes];
      v_store(sums, tap_sum(g, rows, columns, tap / g.kw, tap % g.kw, call.in[0].as<float>() + o, call.in[1].as<float>() + o, lanes));
      for (int k = 0; k < lanes; ++k) {
        float& dw = call.out[0].as<float>()[(o + k) * taps + tap];
        dw = call.accumulate ? dw + sums[k] : sums[k];
      }
    }
  }
}

const Kernel kKernels[] = {
    {.op = "conv2d",
     .name = "cpu_conv2d_depthwise",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_forward,
     .run = forward,
     .packed_bytes = packed_bytes,
     .pack = pack},
    {.op = "conv2d_grad_input",
     .name = "cpu_conv2d_grad_input_depthwise",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_input,
     .run = grad_input,
     .packed_bytes = packed_bytes,
     .pack = pack},
    {.op = "conv2d_grad_weight",
     .name = "cpu_conv2d_grad_weight_depthwise",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_weight,
     .run = grad_weight,
     .accumulates = true},
};
#endif

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(conv_depthwise);
#ifdef PERIGEE_CONV_SIMD
const KernelList PERIGEE_CPU_KERNELS(conv_depthwise) = kernel_list(kKernels);
#else
const KernelList PERIGEE_CPU_KERNELS(conv_depthwise) = {};
#endif

}  // namespace perigee
