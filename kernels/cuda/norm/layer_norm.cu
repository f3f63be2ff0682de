// Layer normalisation: a group of threads takes one row (rows.cuh), which stays in the first cache between the passes over it, so that each
// element is read once from memory and written once. The parameters' gradients are sums down columns (columns.cuh).
#include "kernels/ops/layer_norm.h"

#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/reduce/columns.cuh"
#include "kernels/cuda/reduce/rows.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

// A vector over the last dimension that may be absent.
struct Vector1 {
  Elements of;
  int64_t stride = 0;
  Vector1() = default;
  explicit Vector1(const View& view) : of(view), stride(view.data != nullptr ? view.strides[0] : 0) {}
  __device__ float at(int64_t k, float absent) const { return of.data != nullptr ? of.load<float>(k * stride) : absent; }
};

struct Operand {
  Elements of;
  int64_t stride = 0;  // of the last dimension
  explicit Operand(const View& view) : of(view), stride(view.strides[view.rank - 1]) {}
  __device__ float at(int64_t row, int64_t k) const { return of.load<float>(row + k * stride); }
};

struct ForwardCall {
  Operand x, y;
  Vector1 gamma, beta;
  Elements mean, inverse;
  int64_t k;
  Walk<4> rows;  // x, y, mean, inverse
  float epsilon;
  bool centre;
};

template <int kGroup>
__global__ void __launch_bounds__(kThreads) layer_norm_kernel(const __grid_constant__ ForwardCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t row = group_of_grid<kGroup>(); row < call.rows.n; row += groups_of_grid<kGroup>()) {
    int64_t at[4];
    locate(call.rows, row, at);
    const int self = rank_in_group<kGroup>();
    float sum = 0, squares = 0;
#pragma unroll 1
    for (int64_t k = self; k < call.k; k += kGroup) sum += call.x.at(at[0], k);
    const float mean = call.centre ? group_sum<kGroup>(sum) / static_cast<float>(call.k) : 0.0f;
#pragma unroll 1
    for (int64_t k = self; k < call.k; k += kGroup) {
      const float centred = call.x.at(at[0], k) - mean;
      squares += centred * centred;
    }
    const float inverse = 1 / std::sqrt(group_sum<kGroup>(squares) / static_cast<float>(call.k) + call.epsilon);
#pragma unroll 1
    for (int64_t k = self; k < call.k; k += kGroup)
      call.y.of.store<float>(at[1] + k * call.y.stride, (call.x.at(at[0], k) - mean) * inverse * call.gamma.at(k, 1) + call.beta.at(k, 0));
    if (self == 0) call.mean.store<float>(at[2], mean), call.inverse.store<float>(at[3], inverse);
  }
}

struct BackwardCall {
  Operand dy, x, dx;
  Vector1 gamma;
  Elements mean, inverse;
  int64_t k;
  Walk<5> rows;  // dy, x, dx, mean, inverse
  bool centre;
};

template <int kGroup>
__global__ void __launch_bounds__(kThreads) layer_norm_grad_kernel(const __grid_constant__ BackwardCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t row = group_of_grid<kGroup>(); row < call.rows.n; row += groups_of_grid<kGroup>()) {
    int64_t at[5];
    locate(call.rows, row, at);
    const float mean = call.mean.load<float>(at[3]), inverse = call.inverse.load<float>(at[4]);
    const auto gradient = [&](int64_t k) { return call.dy.at(at[0], k) * call.gamma.at(k, 1); };
    const auto normal = [&](int64_t k) { return (call.x.at(at[1], k) - mean) * inverse; };
    float sum = 0, product = 0;
#pragma unroll 1
    for (int64_t k = rank_in_group<kGroup>(); k < call.k; k += kGroup) {
      const float g = gradient(k);
      sum += g;
      product += g * normal(k);
    }
    sum = call.centre ? group_sum<kGroup>(sum) / static_cast<float>(call.k) : 0.0f;
    product = group_sum<kGroup>(product) / static_cast<float>(call.k);
#pragma unroll 1
    for (int64_t k = rank_in_group<kGroup>(); k < call.k; k += kGroup)
      call.dx.of.store<float>(at[2] + k * call.dx.stride, inverse * (gradient(k) - sum - normal(k) * product));
  }
}

View rows_of(const View& view) { return without_axis(view, view.rank - 1); }

void forward(const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  const View x_rows = rows_of(x), y_rows = rows_of(y);
  ForwardCall all{.x = Operand(x),
                  .y = Operand(y),
                  .mean = Elements(call.out[1]),
                  .inverse = Elements(call.out[2]),
                  .k = x.dims[x.rank - 1],
                  .rows = make_walk<4>(x_rows, {&x_rows, &y_rows, &call.out[1], &call.out[2]}),
                  .epsilon = static_cast<float>(call.as<LayerNormParams>().epsilon),
                  .centre = call.as<LayerNormParams>().centre};
  if (call.n_in > 1) all.gamma = Vector1(call.in[1]);
  if (call.n_in > 2) all.beta = Vector1(call.in[2]);
  Launches on(*call.queue, "layer_norm");
  with_group(all.k, 1,
             [&](auto group) { on.launch(layer_norm_kernel<decltype(group)::value>, blocks_for_rows(all.rows.n, group), kThreads, all); });
}

void backward(const KernelCall& call) {
  const View &dy = call.in[0], &x = call.in[1], &dx = call.out[0];
  const View dy_rows = rows_of(dy), x_rows = rows_of(x), dx_rows = rows_of(dx);
  const BackwardCall all{.dy = Operand(dy),
                         .x = Operand(x),
                         .dx = Operand(dx),
                         .gamma = Vector1(call.in[2]),
                         .mean = Elements(call.in[3]),
                         .inverse = Elements(call.in[4]),
                         .k = x.dims[x.rank - 1],
                         .rows = make_walk<5>(x_rows, {&dy_rows, &x_rows, &dx_rows, &call.in[3], &call.in[4]}),
                         .centre = call.as<LayerNormParams>().centre};
  Launches on(*call.queue, "layer_norm_grad");
  with_group(all.k, 1, [&](auto group) {
    on.launch(layer_norm_grad_kernel<decltype(group)::value>, blocks_for_rows(all.rows.n, group), kThreads, all);
  });
}

struct ParamsTerm {
  Operand dy, x;
  Elements mean, inverse;
  Walk<4> rows;  // dy, x, mean, inverse
  __device__ void operator()(int64_t row, int64_t column, float (&sum)[2]) const {
    int64_t at[4];
    locate(rows, row, at);
    const float g = dy.at(at[0], column);
    sum[0] += g * (x.at(at[1], column) - mean.load<float>(at[2])) * inverse.load<float>(at[3]);
    sum[1] += g;
  }
};

struct ParamsResult {
  Vector1 dgamma, dbeta;
  bool accumulate;
  __device__ void operator()(int64_t column, const float (&sum)[2]) const {
    dgamma.of.put<float>(column * dgamma.stride, sum[0], accumulate);
    dbeta.of.put<float>(column * dbeta.stride, sum[1], accumulate);
  }
};

void params(const KernelCall& call) {
  const View &dy = call.in[0], &x = call.in[1];
  const View dy_rows = rows_of(dy), x_rows = rows_of(x);
  const ParamsTerm term{Operand(dy), Operand(x), Elements(call.in[2]), Elements(call.in[3]),
                        make_walk<4>(x_rows, {&dy_rows, &x_rows, &call.in[2], &call.in[3]})};
  const ParamsResult result{Vector1(call.out[0]), Vector1(call.out[1]), call.accumulate};
  Launches on(*call.queue, "layer_norm_grad_params");
  sum_columns<float, 2>(on, term, result, term.rows.n, x.dims[x.rank - 1], call.scratch);
}

size_t params_scratch(const KernelCall& call) {
  const View& x = call.in[1];
  return columns_scratch<float, 2>(rows_of(x).elements(), x.dims[x.rank - 1]);
}

const Kernel kKernels[] = {
    {.op = "layer_norm", .name = "rows", .backend = Backend::cuda, .decline = decline_unless_f32, .run = forward},
    {.op = "layer_norm_grad", .name = "rows", .backend = Backend::cuda, .decline = decline_unless_f32, .run = backward},
    {.op = "layer_norm_grad_params",
     .name = "columns",
     .backend = Backend::cuda,
     .decline = decline_unless_f32,
     .run = params,
     .scratch_bytes = params_scratch,
     .accumulates = true},
};

}  // namespace

extern const KernelList kernels_cuda_layer_norm;
const KernelList kernels_cuda_layer_norm = kernel_list(kKernels);

}  // namespace perigee
