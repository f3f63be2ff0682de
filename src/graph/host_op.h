// Ops of the program that embeds Perigee: {"op": "host", "attrs": {"name": "mine.swish", "beta": 1.5}}. They are registered for the whole
// process, before anything names them, because worker processes must know them, too; none is ever removed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/host.h"
#include "src/tensor/shape.h"

namespace perigee {

struct HostOp {
  std::string name;                  // "mine.swish"
  int inputs = 1;                    // 1 to kMaxHostOperands
  uint32_t whole = 0;                // bit i: operand i is the same for all examples; the others have them in dimension 0
  std::vector<std::string> options;  // numbers
  std::vector<double> defaults;
  std::function<Type(std::span<const Type> inputs, const double* options)> infer;  // Error(model)
  HostKernel kernel;                                                               // backward null: no gradient flows
};

// Error(usage) when the name is taken. Thread-safe.
void register_host_op(HostOp op);
// Error(model) with the nearest registered name.
const HostOp& host_op_named(const std::string& name);

}  // namespace perigee
