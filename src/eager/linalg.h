// Linear algebra by LAPACK, which is loaded on first use (decision 15). Matrices are the last two dimensions; those before them are a batch. All is
// computed in f64 and given in the operands' dtype, f32 or f64.
#pragma once

#include <vector>

#include "src/eager/array.h"

namespace perigee {

// Each throws Error(model) for shapes that do not fit and for matrices that the decomposition does not exist for, and Error(resources) that
// names the package when there is no LAPACK.
Array solve(const Array& a, const Array& b);  // x with a x = b; b [..., n] or [..., n, k]
Array inverse(const Array& a);
Array cholesky(const Array& a);                      // lower L with L L^T = a; only the lower half of a is read
std::vector<Array> qr(const Array& a);               // Q [..., m, k], R [..., k, n], k = min(m, n)
std::vector<Array> svd(const Array& a);              // U [..., m, k], S [..., k] descending, V^T [..., k, n]
std::vector<Array> eigen_symmetric(const Array& a);  // values ascending [..., n], vectors in columns [..., n, n]

}  // namespace perigee
