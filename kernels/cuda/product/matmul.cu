// matmul with our own tiles: for machines without cuBLAS, small products and strides that cuBLAS does not take. 2 M N K operations.
#include "kernels/ops/matmul.h"

#include "kernels/cuda/product/matrix.cuh"
#include "kernels/dtype_kinds.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

MatrixSizes sizes_of(const KernelCall& call) {
  const View &a = call.in[0], &c = call.out[0];
  MatrixSizes sizes{c.dims[c.rank - 2], c.dims[c.rank - 1], a.dims[a.rank - (call.as<MatmulParams>().transpose_a ? 2 : 1)]};
  for (int d = 0; d < c.rank - 2; ++d) sizes.batches *= c.dims[d];
  return sizes;
}

// The operand's batch dimensions, broadcast to the result's.
Index batch_index(const View& view, const View& result) {
  Index index;
  for (int d = 0; d < result.rank - 2; ++d) {
    const int own = d - result.rank + view.rank;
    index.add(result.dims[d], own >= 0 && view.dims[own] != 1 ? view.strides[own] : 0);
  }
  return index;
}

MatrixLoader<float> loader(const View& view, const View& result, int line_dimension, int depth_dimension) {
  return {.of = Elements(view),
          .lines = dimension_index(view, line_dimension),
          .depth = dimension_index(view, depth_dimension),
          .batches = batch_index(view, result)};
}

size_t scratch_bytes(const KernelCall& call) { return matrix_scratch(sizes_of(call)); }

void run(const KernelCall& call) {
  const View &a = call.in[0], &b = call.in[1], &c = call.out[0];
  const auto& p = call.as<MatmulParams>();
  Launches on(*call.queue, "matmul");
  run_matrix_tiles(on, loader(a, c, a.rank - (p.transpose_a ? 1 : 2), a.rank - (p.transpose_a ? 2 : 1)),
                   {loader(b, c, b.rank - (p.transpose_b ? 2 : 1), b.rank - (p.transpose_b ? 1 : 2))},
                   {MatrixResult<float>{.to = Elements(c),
                                        .rows = dimension_index(c, c.rank - 2),
                                        .columns = dimension_index(c, c.rank - 1),
                                        .batches = batch_index(c, c),
                                        .accumulate = call.accumulate}},
                   sizes_of(call), call.scratch);
}

const char* decline(const KernelCall& call) {
  const Dtype dtype = call.out[0].dtype;
  return dtype == Dtype::f32 || is_half(dtype) ? nullptr : "only f32, bf16 and f16";
}

const Kernel kKernels[] = {{.op = "matmul",
                            .name = "tiles",
                            .backend = Backend::cuda,
                            .decline = decline,
                            .run = run,
                            .scratch_bytes = scratch_bytes,
                            .accumulates = true}};

}  // namespace

size_t matrix_scratch(const MatrixSizes& s) {
  return wide_tiles(s.rows, s.columns, s.batches) ? 0 : tile_scratch<float>(s.rows, s.columns, s.depth, s.batches);
}

void run_matrix_tiles(Launches& on, const MatrixLoader<float>& a, const MatrixLoaderWithOnes<float>& b, const LinearResult<float>& result,
                      const MatrixSizes& s, void* scratch) {
  if (wide_tiles(s.rows, s.columns, s.batches)) return run_wide_tiles<float>(on, a, b, result, s.rows, s.columns, s.depth, s.batches);
  run_tiles<float>(on, a, b, result, s.rows, s.columns, s.depth, s.batches, scratch);
}

extern const KernelList kernels_cuda_matmul;
const KernelList kernels_cuda_matmul = kernel_list(kKernels);

}  // namespace perigee
