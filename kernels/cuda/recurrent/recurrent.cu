// Recurrent cells in f32: the products of the steps are tiles (tile.cuh). A step of lstm with N examples and H units moves 4 H^2 weights and
// 10 N H numbers.
#include "kernels/cuda/recurrent/recurrent.cuh"

namespace perigee {
namespace {

struct TileProduct {
  static void run(Launches& on, const StepMatrix& a, const StepMatrix& b, const StepMatrix& c, bool accumulate, void* scratch) {
    const MatrixSizes sizes{c.rows.n, c.columns.n, a.columns.n};
    run_matrix_tiles(on, {.of = a.of, .lines = a.rows, .depth = a.columns, .batches = {}}, {{b.of, b.columns, b.rows, {}}},
                     {MatrixResult<float>{.to = c.of, .rows = c.rows, .columns = c.columns, .accumulate = accumulate}}, sizes, scratch);
  }
};

// More than any of the products of a call takes.
size_t scratch_bytes(const View& r, int64_t examples, int64_t depth) {
  size_t most = 0;
  const int64_t units = r.dims[0], all = r.dims[1];
  for (const int64_t columns : {units, 2 * units, all}) {
    most = std::max(most, matrix_scratch({examples, columns, units}));
    most = std::max(most, matrix_scratch({examples, units, columns}));
    most = std::max(most, matrix_scratch({units, columns, depth}));
    most = std::max(most, matrix_scratch({units, columns, examples}));
    most = std::max(most, matrix_scratch({units, columns, std::max<int64_t>(depth - examples, 0)}));
  }
  return most;
}

size_t scratch_second(const KernelCall& call) { return scratch_bytes(call.in[1], call.out[0].dims[0], 0); }
size_t scratch_third(const KernelCall& call) { return scratch_bytes(call.in[2], call.out[0].dims[0], 0); }
size_t scratch_weight(const KernelCall& call) {
  const View& h = call.in[1];
  return scratch_bytes(call.out[0], h.dims[0], h.dims[0] * h.dims[1]);
}

const char* decline(const KernelCall& call) { return call.out[0].dtype == Dtype::f32 ? nullptr : "only f32"; }

using Steps = RecurrentSteps<float, TileProduct>;

constexpr Kernel steps_kernel(const char* op, void (*run)(const KernelCall&), size_t (*scratch)(const KernelCall&)) {
  return {.op = op, .name = "steps", .backend = Backend::cuda, .decline = decline, .run = run, .scratch_bytes = scratch};
}

const Kernel kKernels[] = {
    steps_kernel("lstm", Steps::lstm, scratch_second),
    steps_kernel("lstm_grad", Steps::lstm_grad, scratch_third),
    steps_kernel("gru", Steps::gru, scratch_second),
    steps_kernel("gru_grad", Steps::gru_grad, scratch_second),
    steps_kernel("rnn", Steps::rnn, scratch_second),
    steps_kernel("rnn_grad", Steps::rnn_grad, scratch_second),
    {.op = "recurrent_grad_weight",
     .name = "tiles",
     .backend = Backend::cuda,
     .decline = decline,
     .run = Steps::weight,
     .scratch_bytes = scratch_weight,
     .accumulates = true},
};

}  // namespace

extern const KernelList kernels_cuda_recurrent;
const KernelList kernels_cuda_recurrent = kernel_list(kKernels);

}  // namespace perigee
