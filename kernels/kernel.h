// The contract between a plan and a kernel: numbers in, numbers out. A kernel allocates nothing, throws nothing,
// prints nothing and keeps nothing (but for what a library of kernels/cuda/library needs); it may decline a call, with a reason.
// `kernels/ops/<op>.h` says for each op which operand is which and defines its `Params`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/view.h"

namespace perigee {

// The threads that run the same calls on their slices of one batch. Only ops that mix examples (batch-norm statistics) use it.
class Team {
 public:
  virtual ~Team() = default;
  virtual int size() const = 0;
  virtual int rank() const = 0;
  virtual void barrier() = 0;
  // `bytes` of memory shared by the team, the same address for all members until the second next call of `shared`.
  virtual void* shared(size_t bytes) = 0;
};

// The step's data that random draws and schedules may depend on (src/ARCHITECTURE.md, decision 4). Lives as long as the step.
struct StepInfo {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t step = 0;
  const int64_t* example_ids = nullptr;  // one per row of this sub-batch; null: rows count from 0
  bool training = false;
};

struct CudaQueue;  // kernels/cuda/runtime/queue.h

// For a CUDA kernel, views, scratch, packed and step are addresses of the device (StepInfo and the example ids in it too, so that a captured
// graph reads new ones at each replay); params are on the host and read while the call is queued, but for update_*, which reads them on the
// device.
struct KernelCall {
  const View* in = nullptr;
  const View* out = nullptr;
  int n_in = 0;
  int n_out = 0;
  const void* params = nullptr;  // the op's Params
  void* scratch = nullptr;       // scratch_bytes(), 64-byte aligned, undefined content
  void* packed = nullptr;        // packed_bytes(), as pack() left it
  bool accumulate = false;       // out += result; only to kernels that set `accumulates`
  Team* team = nullptr;          // null: alone
  const StepInfo* step = nullptr;
  CudaQueue* queue = nullptr;  // where a CUDA kernel's work goes, in order; null for host kernels

  template <class P>
  const P& as() const {
    return *static_cast<const P*>(params);
  }
};

enum class Backend : uint8_t { ref, cpu, cuda };

// Instruction sets that a CPU kernel file is compiled for; baseline is x86-64-v2.
enum class Isa : uint8_t { baseline, avx2, avx512 };

// One implementation of one op. Operands that an op declares optional have data == nullptr.
struct Kernel {
  const char* op = nullptr;
  const char* name = nullptr;
  Backend backend = Backend::ref;
  Isa isa = Isa::baseline;
  // Null when the call can be run, else the reason. Looks at dtypes, shapes, strides and params; never at data.
  const char* (*decline)(const KernelCall&) = nullptr;
  void (*run)(const KernelCall&) = nullptr;
  size_t (*scratch_bytes)(const KernelCall&) = nullptr;  // null: none
  // A private copy of constant operands (parameters) in the kernel's own layout, rebuilt by pack() at the start of each step.
  size_t (*packed_bytes)(const KernelCall&) = nullptr;
  void (*pack)(const KernelCall&) = nullptr;
  bool accumulates = false;
};

}  // namespace perigee
