// solve: in a, b -> x with a x = b. inv, cholesky (lower): in a -> out. qr: Q, R. svd: U, S, V^T. eigh: values, vectors in columns. det: the
// determinants. slogdet: their signs and the logarithms of their sizes. Matrices are the last two dimensions, those before them a batch.
// They are LAPACK's, a module that is loaded on first use: what calls it comes with the parameters.
#pragma once

#include "kernels/kernel.h"

namespace perigee {

struct LinalgParams {
  void (*run)(const KernelCall& call) = nullptr;  // throws nothing: where there is no result it is NaN
};

}  // namespace perigee
