// A running mean and the variance around it, as an exchange adds them up over replicas. The average of variances is not the variance of all
// examples; that of E[x^2] = variance + mean^2 is. Rows of float32 have too few digits for it where the mean is large beside the deviation,
// so E[x^2] and the mean are formed in double and go as several numbers, the first of so few bits that their sums are exact.
#pragma once

#include <cstdint>

#include "kernels/view.h"

namespace perigee {

// Elements of a row, of f32 or f64, for `channels` means and variances.
int64_t moment_sums(Dtype dtype, int64_t channels);

// The moments times `weight` into a row. False when one of them is not finite.
bool put_moments(Dtype dtype, const void* mean, const void* variance, double weight, int64_t channels, void* row);

// The moments of a merged row whose weights add up to `weight`.
void take_moments(Dtype dtype, const void* row, double weight, int64_t channels, void* mean, void* variance);

}  // namespace perigee
