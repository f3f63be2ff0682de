// fused: a small program of element-wise instructions, evaluated in one pass over its operands.
// in[0..n_inputs-1] broadcast to the shape of the outputs as in NumPy; out[0..n_outputs-1] have that one shape.
// All arithmetic is done in f32 (f64 when the first output is f64); boolean, u8, f16 and bf16 inputs are converted when they
// are read, boolean outputs when they are written.
#pragma once

#include <cstdint>

#include "kernels/ops/elementwise.h"

namespace perigee {

inline constexpr int kFusedInputs = 12;
inline constexpr int kFusedConstants = 12;
inline constexpr int kFusedInstructions = 40;
inline constexpr int kFusedOutputs = 4;
inline constexpr int kFusedTemporaries = 24;

// A register number: inputs first, then constants, then temporaries.
inline constexpr int kFusedConstantBase = kFusedInputs;
inline constexpr int kFusedTemporaryBase = kFusedInputs + kFusedConstants;
inline constexpr int kFusedRegisters = kFusedTemporaryBase + kFusedTemporaries;

struct FusedInstruction {
  Elementwise op;
  uint8_t target;      // a temporary; it may be one of the sources
  uint8_t sources[3];  // as many as the op's arity
};

struct FusedParams {
  double constants[kFusedConstants];
  FusedInstruction code[kFusedInstructions];
  uint8_t n_inputs, n_constants, n_instructions, n_outputs;
  uint8_t outputs[kFusedOutputs];  // the registers that hold the outputs after the last instruction
};

static_assert(sizeof(FusedParams) <= 512);

}  // namespace perigee
