// Dense gradients of conv2d, channels-last, without dilation and groups (those are left to the lists of conv_pool_grad.cpp).
// Input gradient: for each phase of the stride, a convolution of the output gradient by the kernel's taps of that phase, mirrored.
// Weight gradient: register tiles of window elements x output channels over all positions.
#include "kernels/cpu/conv_forward.h"
#include "kernels/cpu/conv_weight_tile.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

#ifdef PERIGEE_CONV_SIMD
constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : Isa::avx2;
constexpr int64_t kMaxPhases = 16;

const char* decline_any(const KernelCall& call, const View& x, const View& w) {
  const auto& p = call.as<ConvParams>();
  if (call.in[0].dtype != Dtype::f32) return "f32 only";
  if (p.dilation[0] != 1 || p.dilation[1] != 1 || p.groups != 1) return "dilation and groups are left to other kernels";
  ConvGeometry g;
  if (!conv_geometry(x, w, p, &g)) return "the window has too many segments, or sizes are too large";
  return nullptr;
}

// ---- input gradient ----

// One axis of one phase: input places a + stride * t (seen from the padded image's border) get taps a + stride * u of output place t - u.
struct Axis {
  int64_t taps;          // how many u
  int64_t first, count;  // the t whose input place lies inside the image
};

Axis phase_axis(int64_t a, int64_t stride, int64_t before, int64_t size, int64_t kernel) {
  const auto floor_div = [](int64_t n, int64_t d) { return n >= 0 ? n / d : -((-n + d - 1) / d); };
  const int64_t first = floor_div(before - a + stride - 1, stride), last = floor_div(size - 1 + before - a, stride);
  return {a < kernel ? (kernel - a + stride - 1) / stride : 0, first, last - first + 1};
}

struct InputPlan {
  ConvGeometry g;
  int64_t sh, sw;
  int64_t top, left, rows, columns;  // the output gradient with its borders
  bool copy;
};

Axis row_axis(const InputPlan& plan, const ConvParams& p, int64_t a) { return phase_axis(a, plan.sh, p.padding[0], plan.g.h, plan.g.kh); }
Axis column_axis(const InputPlan& plan, const ConvParams& p, int64_t b) {
  return phase_axis(b, plan.sw, p.padding[2], plan.g.w, plan.g.kw);
}

// The borders that the output gradient needs on one axis, over all phases.
template <class F>
void borders(int64_t stride, int64_t size, F axis, int64_t* before, int64_t* total) {
  int64_t after = 0;
  *before = 0;
  for (int64_t a = 0; a < stride; ++a) {
    const Axis phase = axis(a);
    if (phase.taps == 0 || phase.count <= 0) continue;
    const int64_t low = phase.taps - 1 - phase.first, high = phase.first + phase.count - size;
    *before = low > *before ? low : *before;
    after = high > after ? high : after;
  }
  *total = *before + size + after;
}

bool input_plan(const KernelCall& call, InputPlan* plan) {
  const auto& p = call.as<ConvParams>();
  if (!conv_geometry(call.out[0], call.in[1], p, &plan->g)) return false;
  plan->sh = p.stride[0], plan->sw = p.stride[1];
  if (plan->sh * plan->sw > kMaxPhases) return false;
  borders(
      plan->sh, plan->g.oh, [&](int64_t a) { return row_axis(*plan, p, a); }, &plan->top, &plan->rows);
  borders(
      plan->sw, plan->g.ow, [&](int64_t b) { return column_axis(*plan, p, b); }, &plan->left, &plan->columns);
  plan->copy = plan->rows != plan->g.oh || plan->columns != plan->g.ow || !call.in[0].channels_last();
  return plan->rows * plan->columns * plan->g.o < int64_t{1} << 28;
}

const char* decline_input(const KernelCall& call) {
  if (!call.out[0].channels_last()) return "the input gradient must be channels-last";
  if (const char* reason = decline_any(call, call.out[0], call.in[1])) return reason;
  InputPlan plan;
  return input_plan(call, &plan) ? nullptr : "the stride has too many phases, or sizes are too large";
}

// Too wide for four positions to a vector: their weights are not packed here.
constexpr int64_t kNoQuads = kLanes;

// The work of forward_positions for one phase.
struct Phase {
  Axis row, column;
  int segments, length;
  ChannelPlan channels;
  int64_t floats;  // packed
};

Phase make_phase(const InputPlan& plan, const ConvParams& p, int64_t a, int64_t b) {
  Phase phase{.row = row_axis(plan, p, a), .column = column_axis(plan, p, b)};
  phase.segments = static_cast<int>(phase.row.taps);
  phase.length = static_cast<int>(phase.column.taps * plan.g.o);
  phase.channels = channel_plan(plan.g.c, phase.segments, phase.length, kNoQuads);
  phase.floats = packed_group_floats(phase.channels, phase.segments, phase.length);
  return phase;
}

int64_t packed_floats(const KernelCall& call) {
  InputPlan plan;
  input_plan(call, &plan);
  int64_t floats = 0;
  for (int64_t a = 0; a < plan.sh; ++a)
    for (int64_t b = 0; b < plan.sw; ++b) floats += make_phase(plan, call.as<ConvParams>(), a, b).floats;
  return floats;
}

size_t packed_bytes(const KernelCall& call) { return static_cast<size_t>(packed_floats(call) + stage_floats(call.in[1])) * sizeof(float); }

// Element k = (v', o) of segment i of a phase is tap (a + sh * (taps - 1 - i), b + sw * (taps - 1 - v')) of output channel o.
void pack_phase(const InputPlan& plan, const Phase& phase, int64_t a, int64_t b, const float* w, float* out) {
  const ConvGeometry& g = plan.g;
  const int64_t taps = g.kh * g.kw;
  const auto place = [&](int64_t tap) -> int64_t {  // of output channel 0 in [segment][k]; -1: another phase's
    const int64_t kr = tap / g.kw - a, kc = tap % g.kw - b;
    if (kr < 0 || kc < 0 || kr % plan.sh || kc % plan.sw) return -1;
    return ((phase.row.taps - 1 - kr / plan.sh) * phase.column.taps + (phase.column.taps - 1 - kc / plan.sw)) * g.o;
  };
  int64_t channel = 0;
  alignas(64) float waste[16];  // a block of a transposition
  for (int left = phase.channels.vectors; left > 0;) {
    const int block = next_block(left);
    left -= block;
    const int64_t lanes = block * kLanes, channels = g.c - channel < lanes ? g.c - channel : lanes;
    const int64_t floats = static_cast<int64_t>(phase.segments) * phase.length * lanes;
    if (channels < lanes) std::memset(out, 0, static_cast<size_t>(floats) * sizeof(float));
    for (int64_t o = 0; o < g.o; ++o)
      transpose<false>(
          channels, taps, [&](int64_t c) { return w + (o * g.c + channel + c) * taps; },
          [&](int64_t tap, int64_t c) {
            const int64_t row = place(tap);
            return row < 0 ? waste : out + (row + o) * lanes + c;
          });
    out += floats;
    channel += lanes;
  }
  const int64_t padded = up(phase.length, kLanes);
  for (int i = 0; i < phase.channels.dots; ++i, out += phase.segments * padded) {
    std::memset(out, 0, static_cast<size_t>(phase.segments * padded) * sizeof(float));
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t row = place(tap);
      if (row < 0) continue;
      for (int64_t o = 0; o < g.o; ++o) out[row / phase.length * padded + row % phase.length + o] = w[(o * g.c + channel + i) * taps + tap];
    }
  }
}

void pack(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  InputPlan plan;
  input_plan(call, &plan);
  auto* out = static_cast<float*>(call.packed);
  const float* const w = canonical(call.in[1], out + packed_floats(call));
  for (int64_t a = 0; a < plan.sh; ++a)
    for (int64_t b = 0; b < plan.sw; ++b) {
      const Phase phase = make_phase(plan, p, a, b);
      if (phase.floats) pack_phase(plan, phase, a, b, w, out);
      out += phase.floats;
    }
}

size_t input_scratch(const KernelCall& call) {
  InputPlan plan;
  input_plan(call, &plan);
  return plan.copy ? static_cast<size_t>(plan.rows * plan.columns * plan.g.o) * sizeof(float) : 0;
}

// The output gradient of example n with its borders.
const float* bordered(const KernelCall& call, const InputPlan& plan, int64_t n) {
  const View& dy = call.in[0];
  if (!plan.copy) return dy.as<float>() + n * dy.strides[0];
  ConvGeometry image{};
  image.c = plan.g.o, image.h = plan.g.oh, image.w = plan.g.ow, image.hp = plan.rows, image.wp = plan.columns;
  pad_image(dy, n, image, plan.top, plan.left, static_cast<float*>(call.scratch));
  return static_cast<const float*>(call.scratch);
}

// Input places that no tap reaches.
void clear_phase(const InputPlan& plan, const Phase& phase, float* dx, int64_t y_row, int64_t y_col) {
  for (int64_t i = 0; i < phase.row.count; ++i)
    for (int64_t j = 0; j < phase.column.count; ++j)
      std::memset(dx + i * y_row + j * y_col, 0, static_cast<size_t>(plan.g.c) * sizeof(float));
}

void grad_input(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  InputPlan plan;
  input_plan(call, &plan);
  const ConvGeometry& g = plan.g;
  int32_t offset[kMaxSegments];
  for (int i = 0; i < kMaxSegments && i < g.kh; ++i) offset[i] = static_cast<int32_t>(i * plan.columns * g.o);
  ForwardCall f{.x_row = plan.columns * g.o, .x_col = g.o, .offset = offset, .floor = -std::numeric_limits<float>::infinity()};
  f.y_row = plan.sh * g.w * g.c;
  f.y_col = plan.sw * g.c;
  for (int64_t n = 0; n < g.n; ++n) {
    const float* const dy = bordered(call, plan, n);
    float* const dx = call.out[0].as<float>() + n * g.h * g.w * g.c;
    f.packed = static_cast<const float*>(call.packed);
    for (int64_t a = 0; a < plan.sh; ++a)
      for (int64_t b = 0; b < plan.sw; ++b) {
        const Phase phase = make_phase(plan, p, a, b);
        if (phase.row.count > 0 && phase.column.count > 0) {
          f.y = dx + ((plan.sh * phase.row.first + a - p.padding[0]) * g.w + plan.sw * phase.column.first + b - p.padding[2]) * g.c;
          if (phase.segments == 0 || phase.length == 0) {
            clear_phase(plan, phase, f.y, f.y_row, f.y_col);
          } else {
            f.segments = phase.segments;
            f.length = phase.length;
            f.rows = phase.row.count;
            f.columns = phase.column.count;
            f.choose_tiles();
            f.x = dy + ((plan.top + phase.row.first - (phase.row.taps - 1)) * plan.columns + plan.left + phase.column.first -
                        (phase.column.taps - 1)) *
                           g.o;
            forward_positions(f, phase.channels);
          }
        }
        f.packed += phase.floats;
      }
  }
}

// ---- weight gradient ----

const char* decline_weight(const KernelCall& call) {
  if (!call.out[0].contiguous()) return "the weight gradient must be contiguous";
  if (!call.in[0].channels_last()) return "the output gradient must be channels-last";
  return decline_any(call, call.in[1], call.out[0]);
}

struct WeightPlan {
  ConvGeometry g;
  int64_t chunk;     // images at a time
  int64_t image;     // floats of one image in scratch, 0: the operand itself is read
  int64_t channels;  // of the sums, rounded up
};

WeightPlan weight_plan(const KernelCall& call) {
  WeightPlan plan;
  conv_geometry(call.in[1], call.out[0], call.as<ConvParams>(), &plan.g);
  const ConvGeometry& g = plan.g;
  const int64_t floats = g.hp * g.wp * g.c, per_image = floats + g.oh * g.ow * g.o;
  plan.chunk = 48 * 1024 / per_image;  // both images in L2, with room for the sums
  plan.chunk = plan.chunk < 1 ? 1 : plan.chunk > g.n ? g.n : plan.chunk;
  plan.image = needs_copy(call.in[1], g) ? up(floats, kLanes) : 0;
  plan.channels = up(g.o, kLanes);
  return plan;
}

size_t weight_scratch(const KernelCall& call) {
  const WeightPlan plan = weight_plan(call);
  return static_cast<size_t>(plan.g.segments * plan.g.length * plan.channels + plan.chunk * plan.image) * sizeof(float);
}

// All tiles over `images` images that begin at x and dy.
void weight_images(const WeightPlan& plan, const ConvParams& p, const float* x, int64_t x_image, const float* dy, int64_t images,
                   float* sums) {
  const ConvGeometry& g = plan.g;
  WeightTileCall t{.x_image = x_image, .x_row = p.stride[0] * g.wp * g.c, .x_col = p.stride[1] * g.c};
  t.dy_image = g.oh * g.ow * g.o, t.dy_row = g.ow * g.o, t.dy_col = g.o;
  t.images = images, t.rows = g.oh, t.columns = g.ow;
  t.segment = g.length * plan.channels;
  t.k = plan.channels;
  int64_t channel = 0;
  for (int left = static_cast<int>(plan.channels / kLanes); left > 0;) {
    const int block = next_block(left);
    left -= block;
    t.last = left == 0 ? static_cast<int>(g.o - (plan.channels - kLanes)) : kLanes;
    const int room = kAccumulators / block, most = room < kWeightElements ? room : kWeightElements;
    const int pieces = (g.length + most - 1) / most, widest = (g.length + pieces - 1) / pieces;
    const int together = room / widest < kWeightRows ? room / widest : kWeightRows;
    const int down = (g.segments + together - 1) / together;
    for (int i = 0; i < down; ++i) {
      const int segment = g.segments * i / down, rows = g.segments * (i + 1) / down - segment;
      t.offset = g.offset + segment;
      for (int j = 0; j < pieces; ++j) {
        const int k = g.length * j / pieces, elements = g.length * (j + 1) / pieces - k;
        t.x = x + k;
        t.dy = dy + channel;
        t.sums = sums + (segment * g.length + k) * plan.channels + channel;
        kWeightTiles[block - 1][rows - 1][elements - 1](t);
      }
    }
    channel += block * kLanes;
  }
}

void grad_weight(const KernelCall& call) {
  const auto& p = call.as<ConvParams>();
  const View &dy = call.in[0], &x = call.in[1];
  const WeightPlan plan = weight_plan(call);
  const ConvGeometry& g = plan.g;
  auto* const sums = static_cast<float*>(call.scratch);
  const int64_t window = static_cast<int64_t>(g.segments) * g.length;
  float* const images = sums + window * plan.channels;
  std::memset(sums, 0, static_cast<size_t>(window * plan.channels) * sizeof(float));
  for (int64_t n = 0; n < g.n; n += plan.chunk) {
    const int64_t count = n + plan.chunk < g.n ? plan.chunk : g.n - n;
    for (int64_t k = 0; plan.image && k < count; ++k) pad_image(x, n + k, g, p.padding[0], p.padding[2], images + k * plan.image);
    const float* const from = plan.image ? images : x.as<float>() + n * x.strides[0];
    weight_images(plan, p, from, plan.image ? plan.image : x.strides[0], dy.as<float>() + n * g.oh * g.ow * g.o, count, sums);
  }
  auto* const dw = call.out[0].as<float>();
  const auto from = [&](int64_t i) { return sums + window_index(g, i) * plan.channels; };
  const auto to = [&](int64_t o, int64_t i) { return dw + o * window + i; };
  if (call.accumulate) transpose<true>(window, g.o, from, to);
  else transpose<false>(window, g.o, from, to);
}

const Kernel kKernels[] = {
    {.op = "conv2d_grad_input",
     .name = "cpu_conv2d_grad_input_tiles",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_input,
     .run = grad_input,
     .scratch_bytes = input_scratch,
     .packed_bytes = packed_bytes,
     .pack = pack},
    {.op = "conv2d_grad_weight",
     .name = "cpu_conv2d_grad_weight_tiles",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_weight,
     .run = grad_weight,
     .scratch_bytes = weight_scratch,
     .accumulates = true},
};
#endif

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(conv_grad);
#ifdef PERIGEE_CONV_SIMD
const KernelList PERIGEE_CPU_KERNELS(conv_grad) = kernel_list(kKernels);
#else
const KernelList PERIGEE_CPU_KERNELS(conv_grad) = {};
#endif

}  // namespace perigee
