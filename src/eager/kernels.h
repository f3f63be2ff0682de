// The kernels' table as eager ops look at it, and running a call on several threads. Internal to this folder.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "src/graph/op.h"

namespace perigee {

// The host's kernels of an op, best first, then ref.
std::span<const Kernel* const> host_kernels(std::string_view op);
// The first that takes the call; Error(model) naming `op` when none does.
const Kernel& kernel_for(std::span<const Kernel* const> kernels, const KernelCall& call, const char* op);

// Rows that the threads share: for each operand the dimension that they cut, -1 if the operand stays whole.
struct RowSplit {
  int64_t rows = 0;  // fewer than two: not split
  std::vector<int> in, out;
};
RowSplit split_elementwise(const KernelCall& call);

// Runs `kernel` on `call`; on several threads when there is a split and `work` (element operations) is worth it.
void run_kernel(const Kernel& kernel, const KernelCall& call, const RowSplit& split, double work);

// Runs `work` for parts 0 .. parts - 1, side by side where the team is free, else one after the other. `work` must not throw.
void in_parts(int parts, const std::function<void(int part)>& work);

int team_size();

}  // namespace perigee
