// cast: in[0] of any dtype is converted to the dtype of out[0], which has the same shape; with more operands, each in[i] to out[i]. No Params.
// To integers: toward zero, at most the type's limits, NaN becomes 0. To boolean: not zero. To f16 and bf16: nearest, ties to even.
#pragma once
