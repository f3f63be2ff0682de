// Batch normalisation: sums down the columns of channels (columns.cuh), then one pass that normalises. Forward reads x twice and writes it
// once; backward reads dy and x (and y, where a residual hides the sign) twice and writes dx once; with channels last and a residual that
// wants its gradient, the second time that gradient instead of dy and y. Sums are in double: E[x^2] - E[x]^2 of f32 then loses nothing that
// counts, and one pass finds both. What lies with channels last goes by 16 bytes a thread. A device holds the whole batch, so there is
// no team.
#include "kernels/ops/batch_norm.h"

#include "kernels/cuda/elementwise/element.cuh"
#include "kernels/cuda/elementwise/walk.cuh"
#include "kernels/cuda/norm/batch_norm_vectors.cuh"
#include "kernels/cuda/reduce/columns.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

// One value per channel; may be absent.
struct PerChannel {
  Elements of;
  int64_t stride = 0;
  PerChannel() = default;
  explicit PerChannel(const View& view) : of(view), stride(view.data != nullptr ? view.strides[0] : 0) {}
  __device__ float at(int64_t c, float absent) const { return of.data != nullptr ? of.load<float>(c * stride) : absent; }
  __device__ void put(int64_t c, double value) const { of.store<float>(c * stride, static_cast<float>(value)); }
};

int64_t per_channel(const View& x) { return x.dims[1] == 0 ? 0 : x.elements() / x.dims[1]; }

// An operand for walks that gives the channel's number.
View channel_numbers(const View& x) {
  View numbers = x;
  for (int64_t& stride : numbers.strides) stride = 0;
  numbers.strides[1] = 1;
  return numbers;
}

// The two sums of each channel yield its mean and variance, or the gradients of beta and gamma and what each element's gradient
// needs.
struct SumsResult {
  PerChannel first, second;  // mean and variance, or dbeta and dgamma
  double* sums;              // of dz, then of dz (x - mean) / sigma, over the batch's count; null: the sums are those of x and its squares
  int64_t channels;
  double count;
  __device__ void operator()(int64_t c, const double (&sum)[2]) const {
    const double average = sum[0] / count, spread = sum[1] / count;
    if (sums != nullptr) {
      first.put(c, sum[0]), second.put(c, sum[1]);
      sums[c] = average, sums[channels + c] = spread;
      return;
    }
    const double variance = spread - average * average;
    first.put(c, average), second.put(c, variance > 0 ? variance : variance == variance ? 0.0 : variance);
  }
};

struct ForwardCall {
  Elements x, residual, y;
  PerChannel gamma, beta, mean, variance;
  Walk<4> walk;  // x, residual, y, channel
  float epsilon;
  bool relu;
};

__global__ void __launch_bounds__(kThreads) normalise_kernel(const __grid_constant__ ForwardCall call) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < call.walk.n; i += threads_of_grid()) {
    int64_t at[4];
    locate(call.walk, i, at);
    const int64_t c = at[3];
    const float scale = call.gamma.at(c, 1) / std::sqrt(call.variance.at(c, 0) + call.epsilon);
    float value = (call.x.load<float>(at[0]) - call.mean.at(c, 0)) * scale + call.beta.at(c, 0);
    if (call.residual.data != nullptr) value += call.residual.load<float>(at[1]);
    call.y.store<float>(at[2], call.relu && value < 0 ? 0 : value);
  }
}

struct BackwardCall {
  Elements dy, x, y, dx, dresidual;
  PerChannel gamma, beta, mean, variance;
  float epsilon;
  bool relu;

  __device__ float inverse(int64_t c) const { return variance.of.data != nullptr ? 1 / std::sqrt(variance.at(c, 0) + epsilon) : 1; }
  __device__ float normal(int64_t at, int64_t c, float inverse) const { return (x.load<float>(at) - mean.at(c, 0)) * inverse; }
  // dy where relu let it through.
  __device__ float gradient(int64_t at_dy, int64_t at_y, int64_t c, float normal) const {
    const float d = dy.load<float>(at_dy);
    if (!relu) return d;
    const float z = y.data != nullptr ? y.load<float>(at_y) : normal * gamma.at(c, 1) + beta.at(c, 0);
    return z > 0 ? d : 0.0f;
  }
};

// Without statistics, and with x for dy, of x and its squares.
struct SumsTerm {
  BackwardCall call;
  Walk<3> rows;  // dy, x, y
  int64_t dy_channel, x_channel, y_channel;
  __device__ void operator()(int64_t row, int64_t c, double (&sum)[2]) const {
    int64_t at[3];
    locate(rows, row, at);
    const float normal = call.normal(at[1] + c * x_channel, c, call.inverse(c));
    const float d = call.gradient(at[0] + c * dy_channel, at[2] + c * y_channel, c, normal);
    sum[0] += static_cast<double>(d);
    sum[1] += static_cast<double>(d) * static_cast<double>(normal);
  }
};

constexpr int64_t kMostRows = INT32_MAX / 2;

// Whether batch_norm_vectors.cuh takes the call: images and rows with one layout, and dense per-channel values in f32.
bool in_vectors(std::initializer_list<const View*> images, std::initializer_list<const View*> by_channel) {
  const View& first = **images.begin();
  if (!has_lanes(first.dtype) || (first.rank != 4 && first.rank != 2) || first.elements() == 0) return false;
  for (const View* image : images) {
    if (image->data == nullptr) continue;
    const bool dense = image->rank == 4 ? image->channels_last() : image->contiguous();
    if (!dense || image->dtype != first.dtype || !on_vector_border(image->data)) return false;
  }
  for (const View* numbers : by_channel)
    if (numbers->data != nullptr && (numbers->dtype != Dtype::f32 || numbers->strides[0] != 1 || !on_vector_border(numbers->data)))
      return false;
  return first.dims[1] % lanes_of(first.dtype) == 0 && first.elements() / first.dims[1] <= kMostRows;
}

size_t vectors_scratch(const View& x) {
  if (x.elements() == 0 || !has_lanes(x.dtype) || per_channel(x) > kMostRows) return 0;
  return static_cast<size_t>(vector_shape(per_channel(x), x.dims[1], x.dtype).parts * x.dims[1] * 2) * sizeof(double);
}

void join_parts(Launches& on, const VectorSums& result, const VectorShape& shape, const double* parts) {
  on.launch(join_vectors_kernel, ceil_divide(shape.channels() * kWarp, kThreads), kThreads, result, shape, parts);
}

View given(const KernelCall& call, int input) { return call.n_in > input ? call.in[input] : View(); }

bool forward_in_vectors(const KernelCall& call, Launches& on) {
  const View &x = call.in[0], &y = call.out[0], gamma = given(call, 1), beta = given(call, 2), residual = given(call, 3);
  if (!in_vectors({&x, &y, &residual}, {&gamma, &beta, &call.out[1], &call.out[2]})) return false;
  const auto& params = call.as<BatchNormParams>();
  const VectorShape shape = vector_shape(per_channel(x), x.dims[1], x.dtype);
  const VectorNorm norm{
      gamma.as<float>(), beta.as<float>(), call.out[1].as<float>(), call.out[2].as<float>(), static_cast<float>(params.epsilon),
      params.relu != 0};
  auto* const parts = static_cast<double*>(call.scratch);
  on.launch(moments_vectors_kernel, shape.tiles * shape.parts, kThreads, x.data, shape, parts);
  join_parts(on, {call.out[1].as<float>(), call.out[2].as<float>(), nullptr}, shape, parts);
  on.launch(normalise_vectors_kernel, shape.tiles * shape.parts, kThreads, x.data, residual.data, y.data, norm, shape);
  return true;
}

PerChannel optional(const KernelCall& call, int input) { return call.n_in > input ? PerChannel(call.in[input]) : PerChannel(); }

void forward(const KernelCall& call) {
  const auto& params = call.as<BatchNormParams>();
  const View &x = call.in[0], &y = call.out[0];
  const View rows = without_axis(x, 1), channels = channel_numbers(x);
  const bool residual = call.n_in > 3 && call.in[3].data != nullptr;
  const ForwardCall all{.x = Elements(x),
                        .residual = residual ? Elements(call.in[3]) : Elements(),
                        .y = Elements(y),
                        .gamma = optional(call, 1),
                        .beta = optional(call, 2),
                        .mean = PerChannel(call.out[1]),
                        .variance = PerChannel(call.out[2]),
                        .walk = make_walk<4>(y, {&x, residual ? &call.in[3] : nullptr, &y, &channels}),
                        .epsilon = static_cast<float>(params.epsilon),
                        .relu = params.relu != 0};
  Launches on(*call.queue, "batch_norm");
  if (forward_in_vectors(call, on)) return;
  const SumsResult moments{all.mean, all.variance, nullptr, x.dims[1], static_cast<double>(per_channel(x))};
  const SumsTerm term{{.dy = all.x, .x = all.x}, make_walk<3>(rows, {&rows, &rows, nullptr}), x.strides[1], x.strides[1], 0};
  sum_columns<double, 2>(on, term, moments, per_channel(x), x.dims[1], call.scratch);
  on.launch(normalise_kernel, blocks_for(all.walk.n), kThreads, all);
}

__global__ void __launch_bounds__(kThreads)
    batch_norm_grad_kernel(const __grid_constant__ BackwardCall call, const __grid_constant__ Walk<6> walk, const double* sums,
                           int64_t channels) {
  begin_kernel();
#pragma unroll 1
  for (int64_t i = thread_of_grid(); i < walk.n; i += threads_of_grid()) {
    int64_t at[6];  // dy, x, y, dx, dresidual, channel
    locate(walk, i, at);
    const int64_t c = at[5];
    const float inverse = call.inverse(c), normal = call.normal(at[1], c, inverse), d = call.gradient(at[0], at[2], c, normal);
    if (call.dresidual.data != nullptr) call.dresidual.store<float>(at[4], d);
    const float mean = static_cast<float>(sums[c]), slope = static_cast<float>(sums[channels + c]);
    call.dx.store<float>(at[3], call.gamma.at(c, 1) * inverse * (d - mean - normal * slope));
  }
}

bool backward_in_vectors(const KernelCall& call, Launches& on, double* sums) {
  const View &dy = call.in[0], &x = call.in[1], &y = call.in[2], &dx = call.out[0];
  const auto& params = call.as<BatchNormParams>();
  const View dresidual = params.residual != 0 ? call.out[3] : View();
  if (!in_vectors({&x, &dy, &y, &dx, &dresidual}, {&call.in[3], &call.in[4], &call.in[5], &call.in[6], &call.out[1], &call.out[2]}))
    return false;
  const VectorShape shape = vector_shape(per_channel(x), x.dims[1], x.dtype);
  VectorNorm norm{
      call.in[3].as<float>(), call.in[4].as<float>(), call.in[5].as<float>(), call.in[6].as<float>(), static_cast<float>(params.epsilon),
      params.relu != 0};
  VectorGradient of{dy.data, x.data, y.data, dx.data, dresidual.data};
  double* const parts = sums + 2 * x.dims[1];
  on.launch(gradient_vectors_kernel, shape.tiles * shape.parts, kThreads, of, norm, shape, parts);
  join_parts(on, {call.out[2].as<float>(), call.out[1].as<float>(), sums}, shape, parts);
  if (of.dresidual != nullptr) of.dy = of.dresidual, norm.relu = false;  // the mask is in it
  on.launch(input_gradient_vectors_kernel, shape.tiles * shape.parts, kThreads, of, norm, shape, static_cast<const double*>(sums));
  return true;
}

void backward(const KernelCall& call) {
  const auto& params = call.as<BatchNormParams>();
  const View &dy = call.in[0], &x = call.in[1], &y = call.in[2], &dx = call.out[0];
  const bool masked = y.data != nullptr, residual = params.residual != 0;
  const BackwardCall all{.dy = Elements(dy),
                         .x = Elements(x),
                         .y = Elements(y),
                         .dx = Elements(dx),
                         .dresidual = residual ? Elements(call.out[3]) : Elements(),
                         .gamma = PerChannel(call.in[3]),
                         .beta = PerChannel(call.in[4]),
                         .mean = PerChannel(call.in[5]),
                         .variance = PerChannel(call.in[6]),
                         .epsilon = static_cast<float>(params.epsilon),
                         .relu = params.relu != 0};
  const View dy_rows = without_axis(dy, 1), x_rows = without_axis(x, 1), y_rows = masked ? without_axis(y, 1) : View{};
  const View channels = channel_numbers(x);
  const SumsTerm term{all, make_walk<3>(x_rows, {&dy_rows, &x_rows, masked ? &y_rows : nullptr}), dy.strides[1], x.strides[1],
                      masked ? y.strides[1] : 0};
  auto* const sums = static_cast<double*>(call.scratch);
  Launches on(*call.queue, "batch_norm_grad");
  if (backward_in_vectors(call, on, sums)) return;
  const SumsResult result{PerChannel(call.out[2]), PerChannel(call.out[1]), sums, x.dims[1], static_cast<double>(per_channel(x))};
  sum_columns<double, 2>(on, term, result, per_channel(x), x.dims[1], sums + 2 * x.dims[1]);
  const Walk<6> walk = make_walk<6>(dx, {&dy, &x, masked ? &y : nullptr, &dx, residual ? &call.out[3] : nullptr, &channels});
  on.launch(batch_norm_grad_kernel, blocks_for(walk.n), kThreads, all, walk, static_cast<const double*>(sums), x.dims[1]);
}

size_t parts_scratch(const View& x) { return max(columns_scratch<double, 2>(per_channel(x), x.dims[1]), vectors_scratch(x)); }
size_t forward_scratch(const KernelCall& call) { return parts_scratch(call.in[0]); }
size_t backward_scratch(const KernelCall& call) {
  const View& x = call.in[1];
  return parts_scratch(x) + static_cast<size_t>(2 * x.dims[1]) * sizeof(double);
}

const Kernel kKernels[] = {
    {.op = "batch_norm",
     .name = "columns",
     .backend = Backend::cuda,
     .decline = decline_unless_f32,
     .run = forward,
     .scratch_bytes = forward_scratch},
    {.op = "batch_norm_grad",
     .name = "columns",
     .backend = Backend::cuda,
     .decline = decline_unless_f32,
     .run = backward,
     .scratch_bytes = backward_scratch},
};

}  // namespace

extern const KernelList kernels_cuda_batch_norm;
const KernelList kernels_cuda_batch_norm = kernel_list(kKernels);

}  // namespace perigee
