// The loss scale of a job (kernels/loss_scale.h): {"precision": "fp16", "loss_scale": "dynamic"}, or a number that stays.
#pragma once

#include <optional>

#include "kernels/loss_scale.h"
#include "src/job/job.h"

namespace perigee {

// Empty where the job's precision needs none. Error(model).
std::optional<LossScale> read_loss_scale(const Job& job);

// The first gradient of each example's loss: the scale is that of the mean over a batch of so many examples, as in PyTorch.
float loss_seed(float scale, int64_t examples);

// In checkpoints.
Json loss_scale_json(const LossScale& scale);
void restore_loss_scale(const Config& from, LossScale* to);

}  // namespace perigee
