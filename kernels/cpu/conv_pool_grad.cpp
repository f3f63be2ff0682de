// The gradients of conv2d_pool, from lists of the pooled gradients that are alive: where relu let something through, at the place that
// won its window. Nothing of the convolution's own size exists.
#include "kernels/cpu/conv_forward.h"
#include "kernels/cpu/conv_lists.h"
#include "kernels/cpu/conv_pool_bias.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

#ifdef PERIGEE_CONV_SIMD
constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : Isa::avx2;
constexpr int64_t kListFloats = 16 * 1024;  // of L1, for the images and lists of one chunk of the weight gradient

const char* decline(const KernelCall& call, const View& x, const View& w) {
  if (call.in[0].dtype != Dtype::f32) return "f32 only";
  for (int i = 0; i < 3; ++i)
    if (!call.in[i].channels_last()) return "gradient, output and argmax must be channels-last";
  PoolGrad c;
  return pool_grad(call, x, w, &c) ? nullptr : "the window has too many segments, or sizes are too large";
}

// ---- input gradient ----

const char* decline_input(const KernelCall& call) {
  if (!call.out[0].channels_last()) return "the input gradient must be channels-last";
  return decline(call, call.out[0], call.in[3]);
}

size_t packed_bytes(const KernelCall& call) {
  PoolGrad c;
  pool_grad(call, call.out[0], call.in[3], &c);
  return static_cast<size_t>(c.g.o * channel_floats(c) + stage_floats(call.in[3])) * sizeof(float);
}

// [o][segment][padded length]
void pack(const KernelCall& call) {
  PoolGrad c;
  const View& w = call.in[3];
  pool_grad(call, call.out[0], w, &c);
  const int64_t floats = channel_floats(c), per_channel = c.g.group_in * c.g.kh * c.g.kw;
  auto* const out = static_cast<float*>(call.packed);
  if (c.g.length % kLanes) std::memset(out, 0, static_cast<size_t>(c.g.o * floats) * sizeof(float));
  const float* const from = canonical(w, out + c.g.o * floats);
  for (int64_t o = 0; o < c.g.o; ++o) window_rows(c.g, from + o * per_channel, c.blocks.padded, out + o * floats);
}

size_t input_scratch(const KernelCall& call) {
  PoolGrad c;
  pool_grad(call, call.out[0], call.in[3], &c);
  const int64_t image = c.g.padded ? up(c.g.hp * c.g.wp * c.g.c, kLanes) : 0;
  return static_cast<size_t>(image) * sizeof(float) + static_cast<size_t>(c.window * list_length(c.g)) * sizeof(Entry);
}

void input_image(const PoolGrad& c, const Alive& image, const float* packed, Entry* lists, float* dx) {
  int counts[256];
  SparseCall s{.from = packed, .offset = c.g.offset, .segment = c.blocks.padded};
  for (int64_t i = 0; i < c.g.ph; ++i)
    for (int64_t j = 0; j < c.g.pw; ++j)
      for (int group = 0; group < c.p.groups; ++group) {
        pixel_lists(c, image.at((i * c.g.pw + j) * c.g.o), group * c.g.group_out, c.g.group_out, lists, counts);
        for (int q = 0; q < c.window; ++q) {
          if (counts[q] == 0) continue;
          s.entries = lists + q * list_length(c.g);
          s.count = counts[q];
          float* const corner = dx + window_corner(c, i, j) + c.window_at[q] + group * c.g.group_in;
          for (int b = 0; b < c.blocks.count; ++b) {
            const SparseBlock& block = c.blocks.block[b];
            s.from = packed + block.segment * c.blocks.padded + block.vector * kLanes;
            s.offset = c.g.offset + block.segment;
            s.to = corner + block.vector * kLanes;
            s.last = block.last;
            kSparse<false>[block.vectors - 1][block.rows - 1](s);
          }
        }
      }
}

// dx (+)= the inside of a padded image.
void unpad_image(const PoolGrad& c, const float* padded, bool accumulate, float* dx) {
  const int64_t row = c.g.w * c.g.c;
  for (int64_t i = 0; i < c.g.h; ++i, dx += row) {
    const float* const from = padded + ((c.p.padding[0] + i) * c.g.wp + c.p.padding[2]) * c.g.c;
    if (accumulate)
      for (int64_t k = 0; k < row; ++k) dx[k] += from[k];
    else std::memcpy(dx, from, static_cast<size_t>(row) * sizeof(float));
  }
}

void grad_input(const KernelCall& call) {
  PoolGrad c;
  pool_grad(call, call.out[0], call.in[3], &c);
  auto* const lists = static_cast<Entry*>(call.scratch);
  auto* const padded = reinterpret_cast<float*>(lists + c.window * list_length(c.g));
  const Alive a = alive(call);
  const int64_t floats = c.g.h * c.g.w * c.g.c;
  for (int64_t n = 0; n < c.g.n; ++n) {
    float* const dx = call.out[0].as<float>() + n * floats;
    float* const image = c.g.padded ? padded : dx;
    if (c.g.padded || !call.accumulate) std::memset(image, 0, static_cast<size_t>(c.g.hp * c.g.wp * c.g.c) * sizeof(float));
    input_image(c, a.at(n * c.g.ph * c.g.pw * c.g.o), static_cast<const float*>(call.packed), lists, image);
    if (c.g.padded) unpad_image(c, padded, call.accumulate, dx);
  }
}

// ---- weight gradient, and beside it that of the bias ----

const char* decline_weight(const KernelCall& call) {
  if (!call.out[0].contiguous()) return "the weight gradient must be contiguous";
  if (call.n_out > 1 && !call.out[1].contiguous()) return "the bias gradient must be contiguous";
  return decline(call, call.in[3], call.out[0]);
}

struct WeightPlan {
  int64_t chunk;  // images at a time
  int64_t image;  // floats of one image in scratch, 0: the operand itself is read
  int64_t list;   // entries of one channel's list
};

WeightPlan weight_plan(const View& x, const PoolGrad& c) {
  const int64_t pixels = c.g.ph * c.g.pw, floats = c.g.hp * c.g.wp * c.g.c;
  int64_t chunk = kListFloats / (floats / 2 + pixels * c.g.o);
  chunk = chunk < 1 ? 1 : chunk > c.g.n ? c.g.n : chunk;
  return {chunk, needs_copy(x, c.g) ? up(floats, kLanes) : 0, chunk * pixels + kLanes};
}

size_t weight_scratch(const KernelCall& call) {
  PoolGrad c;
  pool_grad(call, call.in[3], call.out[0], &c);
  const WeightPlan plan = weight_plan(call.in[3], c);
  return static_cast<size_t>(c.g.o * channel_floats(c) + plan.chunk * plan.image) * sizeof(float) +
         static_cast<size_t>(c.g.o * plan.list) * sizeof(Entry) + static_cast<size_t>(up(c.g.o, kLanes)) * sizeof(int32_t);
}

void grad_weight(const KernelCall& call) {
  PoolGrad c;
  const View& x = call.in[3];
  pool_grad(call, x, call.out[0], &c);
  const WeightPlan plan = weight_plan(x, c);
  const int64_t per_channel = channel_floats(c);
  auto* const sums = static_cast<float*>(call.scratch);
  float* const images = sums + c.g.o * per_channel;
  auto* const lists = reinterpret_cast<Entry*>(images + plan.chunk * plan.image);
  auto* const counts = reinterpret_cast<int32_t*>(lists + c.g.o * plan.list);
  const Alive a = alive(call);
  std::memset(sums, 0, static_cast<size_t>(c.g.o * per_channel) * sizeof(float));
  SparseCall s{.segment = c.blocks.padded};
  for (int64_t n = 0; n < c.g.n; n += plan.chunk) {
    const int64_t end = n + plan.chunk < c.g.n ? n + plan.chunk : c.g.n;
    const float* const from = plan.image ? images : x.as<float>() + n * x.strides[0];
    const int64_t stride = plan.image ? plan.image : x.strides[0];
    std::memset(counts, 0, static_cast<size_t>(up(c.g.o, kLanes)) * sizeof(int32_t));
    for (int64_t k = n; k < end; ++k) {
      if (plan.image) pad_image(x, k, c.g, c.p.padding[0], c.p.padding[2], images + (k - n) * plan.image);
      channel_lists(c, a.at(k * c.g.ph * c.g.pw * c.g.o), (k - n) * stride, plan.list, lists, counts);
    }
    for (int b = 0; b < c.blocks.count; ++b) {
      const SparseBlock& block = c.blocks.block[b];
      const Sparse run = kSparse<true>[block.vectors - 1][block.rows - 1];
      s.offset = c.g.offset + block.segment;
      s.last = block.last;
      for (int64_t o = 0; o < c.g.o; ++o) {
        if (counts[o] == 0) continue;
        s.entries = lists + o * plan.list;
        s.count = counts[o];
        s.from = from + block.vector * kLanes + o / c.g.group_out * c.g.group_in;
        s.to = sums + o * per_channel + block.segment * c.blocks.padded + block.vector * kLanes;
        run(s);
      }
    }
  }
  const int64_t canonical = c.g.group_in * c.g.kh * c.g.kw;
  for (int64_t o = 0; o < c.g.o; ++o) {
    float* const dw = call.out[0].as<float>() + o * canonical;
    if (call.accumulate) canonical_weights<true>(c.g, sums + o * per_channel, c.blocks.padded, dw);
    else canonical_weights<false>(c.g, sums + o * per_channel, c.blocks.padded, dw);
  }
  pool_grad_bias(call);
}

// ---- the same for conv2d without pooling: every gradient is in a list; for groups and dilations, which the dense kernels leave over ----

struct Unpooled {
  ConvParams params;
  View in[4];
  KernelCall call;

  explicit Unpooled(const KernelCall& from)
      : params(from.as<ConvParams>()), in{from.in[0], from.in[0], from.in[0], from.in[1]}, call(from) {
    params.relu = 0;
    params.pool[0] = params.pool[1] = 1;
    call.params = &params;
    in[2].data = nullptr;
    in[2].dtype = Dtype::u8;
    call.in = in;
    call.n_in = 4;
  }
};

template <auto F>
auto unpooled(const KernelCall& call) {
  return F(Unpooled(call).call);
}

const Kernel kKernels[] = {
    {.op = "conv2d_grad_input",
     .name = "cpu_conv2d_grad_input_lists",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = unpooled<decline_input>,
     .run = unpooled<grad_input>,
     .scratch_bytes = unpooled<input_scratch>,
     .packed_bytes = unpooled<packed_bytes>,
     .pack = unpooled<pack>,
     .accumulates = true},
    {.op = "conv2d_grad_weight",
     .name = "cpu_conv2d_grad_weight_lists",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = unpooled<decline_weight>,
     .run = unpooled<grad_weight>,
     .scratch_bytes = unpooled<weight_scratch>,
     .accumulates = true},
    {.op = "conv2d_pool_grad_input",
     .name = "cpu_conv2d_pool_grad_input_lists",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_input,
     .run = grad_input,
     .scratch_bytes = input_scratch,
     .packed_bytes = packed_bytes,
     .pack = pack,
     .accumulates = true},
    {.op = "conv2d_pool_grad_weight",
     .name = "cpu_conv2d_pool_grad_weight_lists",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline_weight,
     .run = grad_weight,
     .scratch_bytes = weight_scratch,
     .accumulates = true},
};
#endif

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(conv_pool_grad);
#ifdef PERIGEE_CONV_SIMD
const KernelList PERIGEE_CPU_KERNELS(conv_pool_grad) = kernel_list(kKernels);
#else
const KernelList PERIGEE_CPU_KERNELS(conv_pool_grad) = {};
#endif

}  // namespace perigee
