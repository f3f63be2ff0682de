// host: an op that the program which embeds Perigee computes by its own functions. in: its operands; out: one result.
// host_grad: in: the operands, the result, the result's gradient; out: the gradient of each operand.
// The functions get contiguous operands whatever the plan's layout is.
#pragma once

#include "kernels/view.h"

namespace perigee {

inline constexpr int kMaxHostOperands = 8;
inline constexpr int kMaxHostOptions = 16;

struct HostKernel {
  const void* definition = nullptr;  // lives as long as the process
  void (*forward)(const void* definition, const double* options, const View* in, int n_in, const View& out) = nullptr;
  // `in` as above; `out`: one gradient per operand.
  void (*backward)(const void* definition, const double* options, const View* in, int n_in, const View* out, int n_out) = nullptr;
};

struct HostParams {
  HostKernel kernel;
  double options[kMaxHostOptions] = {};
};

}  // namespace perigee
