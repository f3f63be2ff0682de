// Recurrent cells in f64 (wide.cuh): the products of the steps are a thread for each sum.
#include "kernels/cuda/recurrent/recurrent.cuh"
#include "kernels/cuda/wide/wide.cuh"

namespace perigee {
namespace {

struct WideProduct {
  StepMatrix a, b, c;
  bool accumulate;

  static void run(Launches& on, const StepMatrix& a, const StepMatrix& b, const StepMatrix& c, bool accumulate, void* scratch);
};

__global__ void __launch_bounds__(kThreads) product_wide(const __grid_constant__ WideProduct call) {
  begin_kernel();
  const auto number = [](const StepMatrix& m, int64_t row, int64_t column) -> double& {
    return static_cast<double*>(m.of.data)[m.rows.offset(row) + m.columns.offset(column)];
  };
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.c.rows.n * call.c.columns.n; i += threads_of_grid()) {
    const int64_t row = i / call.c.columns.n, column = i % call.c.columns.n;
    double& to = number(call.c, row, column);
    double sum = call.accumulate ? to : 0;
#pragma unroll 1
    for (int64_t k = 0; k < call.a.columns.n; ++k) sum += number(call.a, row, k) * number(call.b, k, column);
    to = sum;
  }
}

void WideProduct::run(Launches& on, const StepMatrix& a, const StepMatrix& b, const StepMatrix& c, bool accumulate, void*) {
  on.launch(product_wide, blocks_for(c.rows.n * c.columns.n), kThreads, WideProduct{a, b, c, accumulate});
}

using Steps = RecurrentSteps<double, WideProduct>;

constexpr Kernel wide_steps(const char* op, void (*run)(const KernelCall&), bool accumulates = false) {
  return {.op = op, .name = "wide", .backend = Backend::cuda, .decline = decline_unless_f64, .run = run, .accumulates = accumulates};
}

const Kernel kKernels[] = {
    wide_steps("lstm", Steps::lstm),
    wide_steps("lstm_grad", Steps::lstm_grad),
    wide_steps("gru", Steps::gru),
    wide_steps("gru_grad", Steps::gru_grad),
    wide_steps("rnn", Steps::rnn),
    wide_steps("rnn_grad", Steps::rnn_grad),
    wide_steps("recurrent_grad_weight", Steps::weight, true),
};

}  // namespace

extern const KernelList kernels_cuda_wide_recurrent;
const KernelList kernels_cuda_wide_recurrent = kernel_list(kKernels);

}  // namespace perigee
