// Running statistics of the averaged weights: those of batch norm that "swa" averages belong to other weights, so that they are computed anew
// from the training data, as torch.optim.swa_utils.update_bn does. PyTorch takes the mean of the batches' unbiased variances; here it is the
// variance of all examples together, as the running one is (src/nn/layers/batchnorm.cpp).
#pragma once

#include <atomic>

namespace perigee {

class Trainer;

// For a trainer whose job has "swa", once the average has begun: one pass of forward and backward over an epoch of the training data, in the
// batches that one step computes at once, with the averaged weights, which stay as they are. The statistics of the average become the mean and
// the variance over all examples of the pass; those that the job freezes stay. False, with nothing changed: there are none, the data have no end or
// are streams, a result is not finite (with a warning), or `stop` became true. Between steps, as it makes use of the loader; once a run is over.
bool refresh_statistics(Trainer& trainer, const std::atomic<bool>* stop);

}  // namespace perigee
