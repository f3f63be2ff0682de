// Operands of the recurrent kernels by rows: the state or the gates of an example at one step, which must be contiguous.
#pragma once

#include <cstring>

#include "kernels/cpu/vector_math.h"
#include "kernels/kernel.h"
#include "kernels/ops/recurrent.h"

namespace perigee {
namespace {

constexpr int64_t kLanes = PERIGEE_CPU_NAMESPACE::kLanes;

// [N,T,K] or [N,K] (one step) with contiguous K.
struct Rows {
  Rows() = default;
  explicit Rows(const View& v) : data(v.as<float>()), example(v.rank > 0 ? v.strides[0] : 0), step(v.rank == 3 ? v.strides[1] : 0) {}
  float* operator()(int64_t n, int64_t t = 0) const { return data == nullptr ? nullptr : data + n * example + t * step; }
  float* data = nullptr;
  int64_t example = 0, step = 0;
};

const View kAbsent;
inline const View& optional(const KernelCall& call, int i) { return i < call.n_in ? call.in[i] : kAbsent; }

struct Mask {
  explicit Mask(const View& v) : rows(v), stride(v.data != nullptr ? v.strides[1] : 0) {}
  bool counts(int64_t n, int64_t t) const { return rows.data == nullptr || rows(n)[t * stride] >= 0.5f; }
  Rows rows;
  int64_t stride;
};

struct Sizes {
  // `h`: [N,T,H].
  Sizes(const KernelCall& call, const View& h) : n(h.dims[0]), t(h.dims[1]), h(h.dims[2]), reverse(call.as<RecurrentParams>().reverse) {}
  int64_t at(int64_t i) const { return reverse ? t - 1 - i : i; }
  int64_t next(int64_t example) const { return example + 1 < n ? example + 1 : example; }
  // The distance of rows that are copied side by side: not a multiple of the first cache's ways.
  static int64_t pitch(int64_t columns) { return (columns + kLanes - 1) / kLanes * kLanes + kLanes; }
  int64_t n, t, h;
  bool reverse;
};

// kMask: the operand that is the mask, which may have any strides.
template <int kMask>
const char* decline(const KernelCall& call) {
  const auto fits = [](const View& v) { return v.dims[v.rank - 1] == 1 || v.strides[v.rank - 1] == 1; };
  for (int i = 0; i < call.n_in; ++i) {
    if (call.in[i].data == nullptr) continue;
    if (call.in[i].dtype != Dtype::f32 || (i != kMask && !fits(call.in[i]))) return "operands must be f32 with contiguous rows";
  }
  for (int i = 0; i < call.n_out; ++i)
    if (call.out[i].dtype != Dtype::f32 || !fits(call.out[i])) return "results must be f32 with contiguous rows";
  return nullptr;
}

// Zeros where there is no row.
inline void copy_row(float* to, const float* from, int64_t count) {
  if (from != nullptr) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  else std::memset(to, 0, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace
}  // namespace perigee
