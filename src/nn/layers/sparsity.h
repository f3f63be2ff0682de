// The Kullback-Leibler penalty on mean activations: what keeps most units of an autoencoder or a Boltzmann machine at rest.
#pragma once

#include "src/nn/layer.h"

namespace perigee {

// For activations [N, units] between 0 and 1: [N], whose mean over the whole batch is sum_j KL(target || mean_j), and whose gradient is that
// sum's, with mean_j the mean of unit j over the batch. KL(p || q) = p log(p/q) + (1 - p) log((1 - p)/(1 - q)).
Value sparsity_terms(Value activations, double target);

}  // namespace perigee
