// solve: in a, b -> x with a x = b. inv, cholesky (lower): in a -> out. qr: Q, R. svd: U, S, V^T. eigh: values, vectors in columns. det:
// the determinants. slogdet: their signs and the logarithms of their sizes. Matrices are the last two dimensions, those before them a
// batch. Of a symmetric matrix (cholesky, eigh) the lower half is read. R has Householder's signs, as LAPACK's; of each column of U, and of
// each eigenvector, the first number of at least 0.7 of the largest is positive. All is computed in f64. Where there is no result (solve
// and inv of a singular matrix, cholesky of one that is not positive definite, svd and eigh of what is not finite) it is NaN: on the host
// in the whole batch, on devices in that matrix. On the host they are LAPACK's, a module that is loaded on first use: what calls it comes
// with the parameters.
#pragma once

#include "kernels/kernel.h"

namespace perigee {

struct LinalgParams {
  const char* (*missing)() = nullptr;             // null where the host has LAPACK, else why not
  void (*run)(const KernelCall& call) = nullptr;  // throws nothing: where there is no result it is NaN
};

}  // namespace perigee
