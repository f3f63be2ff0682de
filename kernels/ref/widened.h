// Reference kernels on 16-bit operands: they compute in f32 on copies, and each result is rounded once.
#pragma once

#include <cassert>

#include "kernels/dtype_kinds.h"
#include "kernels/kernel.h"
#include "kernels/ref/strided.h"

namespace perigee {

namespace ref {

inline constexpr int kMaxWidened = 8;

inline size_t widened_bytes(const View& view) {
  return view.data && is_half(view.dtype) ? (static_cast<size_t>(view.elements()) * sizeof(float) + 63) / 64 * 64 : 0;
}

// The same window in memory of its own: contiguous, f32.
inline View widened_view(const View& view, std::byte*& memory) {
  if (widened_bytes(view) == 0) return view;
  View wide = view;
  wide.data = memory;
  wide.dtype = Dtype::f32;
  int64_t stride = 1;
  for (int i = view.rank; i-- > 0;) wide.strides[i] = stride, stride *= view.dims[i];
  memory += widened_bytes(view);
  return wide;
}

inline void copy_elements(const View& from, const View& to) {
  for_each_index(from.rank, from.dims,
                 [&](const int64_t* i) { store_as<float>(to, offset_of(to, i), load_as<float>(from, offset_of(from, i))); });
}

template <size_t (*Scratch)(const KernelCall&)>
size_t own_scratch(const KernelCall& call) {
  if constexpr (Scratch != nullptr) return (Scratch(call) + 63) / 64 * 64;
  else return 0;
}

// Once in the program, although widened() calls it in two places.
template <void (*Run)(const KernelCall&)>
[[gnu::noinline]] void run_once(const KernelCall& call) {
  Run(call);
}

}  // namespace ref

// Scratch memory of widened<Run, Scratch>, where Scratch is that of Run.
template <size_t (*Scratch)(const KernelCall&) = nullptr>
size_t widened_scratch(const KernelCall& call) {
  size_t bytes = ref::own_scratch<Scratch>(call);
  for (int i = 0; i < call.n_in; ++i) bytes += ref::widened_bytes(call.in[i]);
  for (int i = 0; i < call.n_out; ++i) bytes += ref::widened_bytes(call.out[i]);
  return bytes;
}

template <void (*Run)(const KernelCall&), size_t (*Scratch)(const KernelCall&) = nullptr>
void widened(const KernelCall& call) {
  if (widened_scratch<Scratch>(call) == ref::own_scratch<Scratch>(call)) return ref::run_once<Run>(call);
  assert(call.n_in <= ref::kMaxWidened && call.n_out <= ref::kMaxWidened);
  View in[ref::kMaxWidened], out[ref::kMaxWidened];
  std::byte* memory = static_cast<std::byte*>(call.scratch) + ref::own_scratch<Scratch>(call);
  KernelCall wide = call;
  wide.in = in;
  wide.out = out;
  for (int i = 0; i < call.n_in; ++i) {
    in[i] = ref::widened_view(call.in[i], memory);
    if (in[i].data != call.in[i].data) ref::copy_elements(call.in[i], in[i]);
  }
  for (int i = 0; i < call.n_out; ++i) {
    out[i] = ref::widened_view(call.out[i], memory);
    if (call.accumulate && out[i].data != call.out[i].data) ref::copy_elements(call.out[i], out[i]);
  }
  ref::run_once<Run>(wide);
  for (int i = 0; i < call.n_out; ++i)
    if (out[i].data != call.out[i].data) ref::copy_elements(out[i], call.out[i]);
}

}  // namespace perigee
