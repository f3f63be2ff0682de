// Element-wise programs: of `fused`, and of single ops where they are not dense f32.
#pragma once

#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/elementwise/walk.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/kernel.h"
#include "kernels/ops/fused.h"

namespace perigee {

constexpr int kProgramOperands = kFusedInputs + kFusedOutputs;

struct ElementwiseProgram {
  FusedParams params;
  Elements in[kFusedInputs], out[kFusedOutputs];
  Walk<kProgramOperands> walk;  // inputs, then outputs from kFusedInputs on
  bool accumulate = false;
};

ElementwiseProgram elementwise_program(const KernelCall& call, const FusedParams& params);

// Computes in the type that holds all values of `computing`: f32, f64 or i64.
void run_program(Launches& on, const ElementwiseProgram& program, Dtype computing);

}  // namespace perigee
