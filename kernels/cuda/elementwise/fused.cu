// Element-wise programs, interpreted: each instruction for 8 bytes of elements at a time. Compiled programs (fused_nvrtc) keep their values in
// registers; here they are in local memory, which stays in the first cache. A driver sets that aside for every thread that the GPU could hold
// at once, 1 MiB for each multiprocessor where a thread has 512 bytes. This one serves where NVRTC is absent, and any dtypes and strides.
#include "kernels/cuda/elementwise/fused.cuh"

#include "kernels/cuda/device.cuh"
#include "kernels/ref/elementwise_math.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kMostLocal = 512;  // bytes of a thread

// The element's place in each dimension of the walk.
__device__ void position_of(const Walk<kProgramOperands>& walk, int64_t i, int64_t* position) {
#pragma unroll 1
  for (int d = walk.rank - 1; d >= 0; --d) {
    position[d] = i;
    if (d == 0) break;
    i = divide(i, walk.dims[d], walk.n);
    position[d] -= i * walk.dims[d];
  }
}

__device__ int64_t offset_in(const Walk<kProgramOperands>& walk, int operand, const int64_t* position) {
  int64_t offset = 0;
#pragma unroll 1
  for (int d = 0; d < walk.rank; ++d) offset += position[d] * walk.strides[operand][d];
  return offset;
}

template <class T>
__global__ void __launch_bounds__(kThreads) program_kernel(ElementwiseProgram program) {
  begin_kernel();
  constexpr int kItems = 8 / sizeof(T);
  const FusedParams& params = program.params;
  T value[kFusedRegisters][kItems];
  for (int c = 0; c < params.n_constants; ++c)
    for (int k = 0; k < kItems; ++k) value[kFusedConstantBase + c][k] = static_cast<T>(params.constants[c]);
  const int64_t threads = threads_of_grid(), n = program.walk.n;
  for (int64_t first = thread_of_grid(); first < n; first += kItems * threads) {
    int64_t position[kItems][kMaxRank];
    static_assert(sizeof value + sizeof position <= kMostLocal);
    for (int k = 0; k < kItems; ++k) {
      const int64_t i = first + k * threads;
      position_of(program.walk, i < n ? i : first, position[k]);  // in place, no other element is this thread's to read
    }
#pragma unroll 1
    for (int i = 0; i < params.n_inputs; ++i)
      for (int k = 0; k < kItems; ++k) value[i][k] = program.in[i].load<T>(offset_in(program.walk, i, position[k]));
#pragma unroll 1
    for (int i = 0; i < params.n_instructions; ++i) {
      const FusedInstruction step = params.code[i];
      for (int k = 0; k < kItems; ++k)
        value[step.target][k] = evaluate<T>(step.op, value[step.sources[0]][k], value[step.sources[1]][k], value[step.sources[2]][k]);
    }
#pragma unroll 1
    for (int o = 0; o < params.n_outputs; ++o)
      for (int k = 0; k < kItems; ++k)
        if (first + k * threads < n)
          program.out[o].put<T>(offset_in(program.walk, kFusedInputs + o, position[k]), value[params.outputs[o]][k], program.accumulate);
  }
}

void fused(const KernelCall& call) {
  const bool wide = call.out[0].dtype == Dtype::f64 || (call.n_in > 0 && call.in[0].dtype == Dtype::f64);
  Launches on(*call.queue, "fused");
  run_program(on, elementwise_program(call, call.as<FusedParams>()), wide ? Dtype::f64 : Dtype::f32);
}

const Kernel kKernels[] = {{.op = "fused", .name = "interpreter", .backend = Backend::cuda, .run = fused}};

}  // namespace

ElementwiseProgram elementwise_program(const KernelCall& call, const FusedParams& params) {
  ElementwiseProgram program{.params = params, .accumulate = call.accumulate};
  const View* views[kProgramOperands] = {};
  for (int i = 0; i < call.n_in; ++i) {
    program.in[i] = Elements(call.in[i]);
    views[i] = &call.in[i];
  }
  for (int o = 0; o < call.n_out; ++o) {
    program.out[o] = Elements(call.out[o]);
    views[kFusedInputs + o] = &call.out[o];
  }
  program.walk = make_walk<kProgramOperands>(call.out[0], views);
  return program;
}

void run_program(Launches& on, const ElementwiseProgram& program, Dtype computing) {
  with_computing_type(computing, [&](auto zero) {
    const int64_t blocks = blocks_for(ceil_divide(program.walk.n * static_cast<int64_t>(sizeof zero), 8));
    on.launch(program_kernel<decltype(zero)>, blocks, kThreads, program);
  });
}

extern const KernelList kernels_cuda_fused;
const KernelList kernels_cuda_fused = kernel_list(kKernels);

}  // namespace perigee
