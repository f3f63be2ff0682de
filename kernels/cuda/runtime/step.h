// Work of a training step on a CUDA device beside the kernels of ops: rows of a resident data set, the loss and the count of correct
// answers, norms of gradients, constraints, and states that take their next values. All addresses are the device's; all work is queued.
// A step whose loss is not finite stops itself on the device: `stopped` is set, and neither its update nor that of any step after it
// changes anything until the host clears the word. So the host may read what came of a step while the next one runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/queue.h"
#include "kernels/cuda/runtime/update.h"
#include "kernels/loss_scale.h"
#include "kernels/view.h"

namespace perigee {

// The result of a step; the host reads it.
struct CudaStepRecord {
  double loss_sum = 0;
  double gradient_norm = -1;
  int64_t correct = 0;
  int32_t stopped = 0;
  int32_t overflowed = 0;  // the gradient, in f16: the step changed nothing but the scale
  LossScale scale;         // after the step
  float seed = 0;          // what the gradient began with; 0: it was not scaled
};

// In the device's memory.
struct CudaLossScale {
  LossScale scale;
  float seed = 0;
  int32_t found = 0;  // something that is not finite
};

// A step in f16: begin_scaled() before forward, end_scaled() after norms (or, where none are measured, after backward).
struct CudaScaleCall {
  CudaLossScale* scale = nullptr;
  float* seeds = nullptr;
  int64_t examples = 0;             // of this GPU
  int64_t of = 0;                   // of all that the loss is the mean of
  const float* gradient = nullptr;  // what is looked through; null: the record has a norm, which says the same
  int64_t elements = 0;             // on a border of 16 bytes and a multiple of 4
  int32_t* stopped = nullptr;
  CudaUpdate* update = nullptr;  // gets the seed taken out of its windows' gradient_scale; null: there is none
  CudaStepRecord* record = nullptr;
};

constexpr int kGatherFields = 8;  // at once

// Gathers one field of the examples: to[i] = from[rows[i]], rows of `bytes` bytes; from and to are aligned to 16 bytes.
struct CudaGatherField {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
};
struct CudaGatherCall {
  CudaGatherField fields[kGatherFields];
  int count = 0;
  const int64_t* rows = nullptr;
  int64_t n = 0;
};

struct CudaCommit {  // a state's next value
  void* to = nullptr;
  const void* from = nullptr;
  int64_t bytes = 0;
};

struct CudaJudgeCall {
  View loss;                        // [N], contiguous: f32 or f64
  View output;                      // [N, C], contiguous, of the same type; data null: nothing is counted
  const int64_t* labels = nullptr;  // [N]
  int64_t* counter = nullptr;       // 0 before and after
  int32_t* stopped = nullptr;
  CudaUpdate* update = nullptr;      // its `skip` becomes what `stopped` is; null: there is none
  CudaStepRecord* record = nullptr;  // pinned
  double* shares = nullptr;          // of one of several GPUs: loss, correct and whether it is stopped go here instead, to be added up
};

// Several GPUs that train one model together.
constexpr int kMostGpus = 16;
struct CudaCombineCall {  // the sum in a fixed binary tree, as over the threads of a CPU; of i64 the maximum
  const void* parts[kMostGpus] = {};
  int n = 0;
  void* to = nullptr;  // may be one of them
  int64_t elements = 0;
  Dtype dtype = Dtype::f32;
};
struct CudaSettleCall {
  const double* shares = nullptr;  // the sums of all GPUs' CudaJudgeCall::shares
  int32_t* stopped = nullptr;
  CudaUpdate* update = nullptr;      // as in CudaJudgeCall
  CudaStepRecord* record = nullptr;  // pinned
};
// Moves running statistics, f32 or f64, to f64 sums over GPUs (from[i] * weight) and back (from[i] / weight). For a variance, whose mean_at
// is not 0, the sums hold E[x^2]; its mean lies that many elements away. Does nothing if stopped is set.
struct CudaWeighCall {
  const void* from = nullptr;
  void* to = nullptr;
  const int32_t* mean_at = nullptr;
  int64_t elements = 0;
  Dtype dtype = Dtype::f32;  // of the statistics
  double weight = 1;
  bool divide = false;
  const int32_t* stopped = nullptr;
};

// A step of an average over time, f32 or f64: to += share * (from - to), with the bits of src/train/weight_average.h. Does nothing if stopped
// is set.
struct CudaApproachCall {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t elements = 0;
  Dtype dtype = Dtype::f32;
  double share = 1;
  const int32_t* stopped = nullptr;
};

// Norms of gradients by groups of windows, with the bits of src/optim/clip.h: squares are summed over pieces of kNormPiece elements.
constexpr int64_t kNormPiece = 4096;
enum class CudaNorms : int32_t { cut, renormalize };  // down to the threshold; to norm 1
struct CudaNormCall {
  const void* gradient = nullptr;
  Dtype dtype = Dtype::f32;
  CudaUpdate* update = nullptr;     // whose windows' gradient_scale is multiplied by their group's factor
  const int32_t* groups = nullptr;  // by window of `update`
  int32_t windows = 0, group_count = 0;
  const int64_t* pieces = nullptr;  // by window: the number of its first piece, ascending; one more behind the last
  int64_t piece_count = 0;
  double* sums = nullptr;  // [piece_count + windows], scratch
  CudaNorms kind = CudaNorms::cut;
  double threshold = 1;
  CudaStepRecord* record = nullptr;  // gets the norm of all
};

// src/optim/constraint.h: `vectors` vectors of `members` elements each.
struct CudaConstraint {
  void* block = nullptr;
  Dtype dtype = Dtype::f32;
  const int64_t* starts = nullptr;
  const int64_t* members = nullptr;
  int64_t vectors = 0, elements = 0;
  bool non_negative = false;  // else lengths move by `rate` of the way into [low, high]
  double low = 0, high = 0, rate = 1;
  const CudaUpdate* update = nullptr;
};

struct CudaSteps {
  void (*gather)(const CudaGatherCall&, CudaQueue&) = nullptr;
  void (*judge)(const CudaJudgeCall&, CudaQueue&) = nullptr;
  void (*norms)(const CudaNormCall&, CudaQueue&) = nullptr;
  void (*constrain)(const CudaConstraint&, CudaQueue&) = nullptr;
  // Nothing where `stopped` is not 0.
  void (*commit)(const CudaCommit* states, size_t count, const int32_t* stopped, CudaQueue&) = nullptr;
  void (*begin_scaled)(const CudaScaleCall&, CudaQueue&) = nullptr;
  void (*end_scaled)(const CudaScaleCall&, CudaQueue&) = nullptr;
  void (*combine)(const CudaCombineCall&, CudaQueue&) = nullptr;
  void (*settle)(const CudaSettleCall&, CudaQueue&) = nullptr;
  void (*weigh)(const CudaWeighCall&, CudaQueue&) = nullptr;
  void (*approach)(const CudaApproachCall&, CudaQueue&) = nullptr;
};

// The table of the module.
const CudaSteps& cuda_steps();

}  // namespace perigee
