// copy: each element is read and written once. Elements of one size are copied alike, whatever they mean; sums are left to cast.
#include "kernels/ops/copy.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/moves.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads) copy_kernel(const T* in, T* out, Walk<2> walk) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < walk.n; i += threads_of_grid()) {
    int64_t at[2];
    locate(walk, i, at);
    out[at[1]] = in[at[0]];
  }
}

// 16 bytes a thread, then those that are left over.
__global__ void __launch_bounds__(kThreads) copy_bytes_kernel(const std::byte* in, std::byte* out, int64_t bytes) {
  begin_kernel();
  const int64_t words = bytes / 16;
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < words; i += threads_of_grid())
    reinterpret_cast<Vector<uint32_t>*>(out)[i] = reinterpret_cast<const Vector<uint32_t>*>(in)[i];
#pragma unroll 1
  for (int64_t i = 16 * words + thread_of_grid(); i < bytes; i += threads_of_grid()) out[i] = in[i];
}

template <class T>
void copy_typed(Launches& on, const View& in, const View& out, const Walk<2>& walk) {
  on.launch(copy_kernel<T>, blocks_for(walk.n), kThreads, in.as<T>(), out.as<T>(), walk);
}

void copy(const KernelCall& call) {
  Launches on(*call.queue, "copy");
  copy_view(on, call.in[0], call.out[0], call.accumulate);
}

const Kernel kKernels[] = {{.op = "copy", .name = "copy", .backend = Backend::cuda, .run = copy, .accumulates = true}};

}  // namespace

void copy_view(Launches& on, const View& in, const View& out, bool accumulate) {
  const Walk<2> walk = make_walk<2>(out, {&in, &out});
  if (accumulate) return cast_elements(on, in, out, walk, true);
  const auto size = static_cast<int64_t>(dtype_bytes(out.dtype));
  if (walk.dense(0) && walk.dense(1) && on_vector_border(in.data) && on_vector_border(out.data))
    return on.launch(copy_bytes_kernel, blocks_for(ceil_divide(walk.n * size, 16)), kThreads, in.as<const std::byte>(), out.as<std::byte>(),
                     walk.n * size);
  switch (size) {
    case 1: return copy_typed<uint8_t>(on, in, out, walk);
    case 2: return copy_typed<uint16_t>(on, in, out, walk);
    case 4: return copy_typed<uint32_t>(on, in, out, walk);
    default: return copy_typed<uint64_t>(on, in, out, walk);
  }
}

extern const KernelList kernels_cuda_copy;
const KernelList kernels_cuda_copy = kernel_list(kKernels);

}  // namespace perigee
