// Linear algebra by LAPACK, which is loaded on first use: what the ops of src/graph/ops/linalg.cpp compute. Matrices are the
// last two dimensions; those before them are a batch. All is computed in f64 and given in the operands' dtype, f32 or f64.
#pragma once

#include <exception>
#include <string_view>

#include "kernels/kernel.h"

namespace perigee {

// Null, or why there is no LAPACK, with the package that has it. Lasts as long as the program.
const char* missing_linear_algebra();

// The function that computes a call of the op, if LAPACK is present. A call whose result does not exist (a singular
// matrix) gives NaN, and the thread keeps an Error(model) that says so.
void (*linear_algebra(std::string_view op))(const KernelCall&);

// The first failure of this thread since it was last asked; null when there was none.
std::exception_ptr take_linear_algebra_failure();

}  // namespace perigee
