// The gradient of the recurrent weights of all cells: one product of the states before each step with the gradients of the sums in it, over
// all steps of all examples, block by block of rows.
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/recurrent/rows.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

namespace math = PERIGEE_CPU_NAMESPACE;
using gemm::Panels;

constexpr int64_t kRowBlock = 512;  // of states, which stay in the second-level cache

size_t weight_scratch(const KernelCall& call) {
  const Sizes s(call, call.in[1]);
  const int64_t rows = s.n * s.t < kRowBlock ? s.n * s.t : kRowBlock;
  return static_cast<size_t>(rows * (Sizes::pitch(s.h) + gemm::kPanelVectors * kLanes)) * sizeof(float);
}

// dr[:, column..] (+)= states^T d[:, from..] over rows [begin, begin + rows) of all steps. `left`: states side by side.
void add_products(const Sizes& s, const Rows& d, int64_t from, int64_t columns, int64_t begin, int64_t rows, const float* left,
                  float* panel, const View& dr, int64_t column, bool accumulate) {
  const Panels panels(columns, gemm::kPanelVectors);
  for (int64_t q = 0; q < panels.count; ++q) {
    const int64_t j = panels.first(q), width = panels.width(q) * kLanes, count = width - kLanes + panels.last(q);
    for (int64_t r = 0; r < rows; ++r) {
      const float* const row = d((begin + r) / s.t, (begin + r) % s.t) + from + j;
      for (int64_t k = 0; k + kLanes <= count; k += kLanes) math::store(panel + r * width + k, math::load(row + k));
      for (int64_t k = count / kLanes * kLanes; k < width; ++k) panel[r * width + k] = k < count ? row[k] : 0;
    }
    gemm::multiply<false>({.m = s.h,
                           .n = count,
                           .k = rows,
                           .a = left,
                           .a_stride = Sizes::pitch(s.h),
                           .b = panel,
                           .ldb = width,
                           .c = dr.as<float>() + column + j,
                           .ldc = dr.strides[0],
                           .finish = {.accumulate = accumulate}});
  }
}

void run_weight(const KernelCall& call) {
  const Sizes s(call, call.in[1]);
  const RecurrentReset reset = call.as<RecurrentParams>().reset;
  const Rows d(call.in[0]), h(call.in[1]), h0(optional(call, 2)), gates(optional(call, 3));
  const View& dr = call.out[0];
  const int64_t pitch = Sizes::pitch(s.h), rows = s.n * s.t, direct = reset == RecurrentReset::none ? dr.dims[1] : 2 * s.h;
  float *const left = static_cast<float*>(call.scratch), *const panel = left + (rows < kRowBlock ? rows : kRowBlock) * pitch;
  for (int64_t begin = 0; begin < rows; begin += kRowBlock) {
    const int64_t count = rows - begin < kRowBlock ? rows - begin : kRowBlock;
    const bool accumulate = call.accumulate || begin > 0;
    for (int64_t r = 0; r < count; ++r) {
      const int64_t n = (begin + r) / s.t, t = (begin + r) % s.t;
      const bool first = t == s.at(0);
      copy_row(left + r * pitch, first ? h0(n) : h(n, s.reverse ? t + 1 : t - 1), s.h);
    }
    add_products(s, d, 0, direct, begin, count, left, panel, dr, 0, accumulate);
    if (reset == RecurrentReset::none) continue;
    if (reset == RecurrentReset::before)
      for (int64_t r = 0; r < count; ++r) copy_row(left + r * pitch, gates((begin + r) / s.t, (begin + r) % s.t) + 3 * s.h, s.h);
    add_products(s, d, reset == RecurrentReset::after ? 3 * s.h : 2 * s.h, s.h, begin, count, left, panel, dr, 2 * s.h, accumulate);
  }
}

const Kernel kKernels[] = {
    {.op = "recurrent_grad_weight",
     .name = "blocks",
     .backend = Backend::cpu,
     .isa = Isa::PERIGEE_ISA,
     .decline = decline<-1>,
     .run = run_weight,
     .scratch_bytes = weight_scratch,
     .accumulates = true},
};

}  // namespace

extern const KernelList PERIGEE_CPU_KERNELS(recurrent_weight);
const KernelList PERIGEE_CPU_KERNELS(recurrent_weight) = kernel_list(kKernels);

}  // namespace perigee
