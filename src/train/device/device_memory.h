// A job's need of a GPU's memory, known before any of it is taken, and without a GPU: from the plans. The trainer goes by it to decide
// whether the data set stays on the device and what is computed again; `perigee describe` prints it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/data/source.h"
#include "src/device/gpu.h"
#include "src/model/evaluator.h"
#include "src/model/plans/plan_set.h"
#include "src/optim/optimizer.h"

namespace perigee {

// Running statistics as GPUs of a team add them up: 8 bytes each, and behind them for each a 32-bit number (CudaWeighCall::mean_at).
inline size_t state_sum_bytes(const Params& params) {
  const size_t elements = params.state_bytes().size() / params.width();
  return elements * (sizeof(double) + sizeof(int32_t));
}

// Where things lie in the buffer that goes over with each step, in bytes from its start.
struct StepLayout {
  size_t update = 0, ids = 0, seeds = 0, total = 0;  // seeds: of f16, written by the device
  std::vector<size_t> fields;                        // none when batches are gathered on the device
  std::vector<size_t> factors;                       // of the loss, by Model::factors()
  // `image`: bytes of the update's scalars; `rows`: bytes of an example, by field; `scaled`: the loss is.
  StepLayout(const Model& model, size_t image, int64_t examples, std::span<const size_t> rows, bool gather, bool scaled);
};

// In bytes of the device, but for `pinned`, which is the host's.
struct DeviceMemory {
  size_t parameters = 0, states = 0, gradients = 0, optimizer = 0;
  size_t average = 0;                   // of the weights: on the first GPU
  size_t training = 0, evaluation = 0;  // arenas; there is one for both, of the larger size
  size_t constants = 0;                 // of the plans
  size_t batches = 0;                   // on their way, and gathered
  size_t sums = 0;                      // over several GPUs, where they are copies between them
  size_t data_set = 0;                  // 0: batches are streamed
  size_t replica = 0;                   // of a cluster: codecs that work there, the last result; the caller adds it
  size_t pinned = 0;

  size_t arena() const { return std::max(training, evaluation); }
  size_t total() const {
    return parameters + states + gradients + optimizer + average + arena() + constants + batches + sums + data_set + replica;
  }
  std::string text() const;  // one line for each
};

// Memory in use on a GPU, by its owner.
struct DeviceTaken {
  std::string device;    // "cuda:0"
  size_t peak = 0;       // by us
  size_t of_sums = 0;    // by NCCL, as far as it was seen
  size_t of_others = 0;  // by CUDA's context, kernels, libraries and their workspaces, other processes
};

struct DeviceMemoryQuestion {
  const Model& model;
  PlanSet* training = nullptr;    // null: what does not depend on plans
  PlanSet* evaluation = nullptr;  // inference with loss; null: nothing is evaluated
  const Optimizer& optimizer;
  size_t slots = 0;
  const DataSource& source;
  std::span<const int> fields;  // of it, that the model reads
  int64_t batch = 1;            // of this GPU
  int evaluated_parts = 0;
  int64_t gpus = 1;   // of several each has as much
  size_t copied = 0;  // bytes of the largest sum over them, where sums are copies between them
  bool resident = false;
  bool scaled = false;    // precision "fp16"
  bool summed = false;    // a step has several batches, whose gradients are added up
  bool averaged = false;  // the job has "ema" or "swa"
  int64_t streams = 0;    // rows that carry from step to step; 0: none does
};
DeviceMemory plan_device_memory(const DeviceMemoryQuestion& question);

// The bytes of a data set on a device; 0 when it cannot be kept there (it gives other examples in every epoch).
size_t resident_bytes(const DataSource& source, std::span<const int> fields);

// The three largest things that a step holds: "layer 'conv1' (1 of 6), op 'conv2d': f32[128x64x56x56], 98.0 MiB".
std::string largest_tensors(const Plan& plan, const Params& params);
std::string mebibytes(size_t bytes);

}  // namespace perigee
