#include "kernels/ops/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/ref/strided.h"
#include "kernels/ref/widened.h"
#include "kernels/registry.h"
#include "kernels/team_gather.h"

namespace perigee {
namespace {

// A per-channel operand that may be absent.
template <class T>
T channel(const View& view, int64_t c, T absent) {
  return view.data == nullptr ? absent : view.as<T>()[c * view.strides[0]];
}

// Calls f(index) for all elements of one channel.
template <class F>
void for_channel(const View& x, int64_t c, F f) {
  int64_t dims[kMaxRank];
  std::copy(x.dims, x.dims + x.rank, dims);
  dims[1] = 1;
  for_each_index(x.rank, dims, [&](const int64_t* index) {
    int64_t at[kMaxRank];
    std::copy(index, index + x.rank, at);
    at[1] = c;
    f(static_cast<const int64_t*>(at));
  });
}

int64_t per_channel_count(const View& x) { return x.dims[1] == 0 ? 0 : x.elements() / x.dims[1]; }

size_t scratch(const KernelCall& call) { return static_cast<size_t>(2 * call.in[call.n_in > 4 ? 1 : 0].dims[1]) * sizeof(double); }

template <class T>
void forward_batch_norm_typed(const KernelCall& call) {
  const auto& params = call.as<BatchNormParams>();
  const View &x = call.in[0], &y = call.out[0];
  const View gamma = call.n_in > 1 ? call.in[1] : View{}, beta = call.n_in > 2 ? call.in[2] : View{},
             residual = call.n_in > 3 ? call.in[3] : View{};
  const int64_t channels = x.dims[1], count = per_channel_count(x);
  auto* moments = static_cast<double*>(call.scratch);
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for_channel(x, c, [&](const int64_t* i) { sum += static_cast<double>(x.as<T>()[offset_of(x, i)]); });
    const double mean = count > 0 ? sum / static_cast<double>(count) : 0;
    for_channel(x, c, [&](const int64_t* i) {
      const double d = static_cast<double>(x.as<T>()[offset_of(x, i)]) - mean;
      squares += d * d;
    });
    moments[c] = mean;
    moments[channels + c] = squares;
  }
  team_moments(call.team, static_cast<double>(count), moments, channels);
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = static_cast<double>(channel<T>(gamma, c, 1)) / std::sqrt(moments[channels + c] + params.epsilon);
    const double shift = static_cast<double>(channel<T>(beta, c, 0));
    for_channel(x, c, [&](const int64_t* i) {
      double value = (static_cast<double>(x.as<T>()[offset_of(x, i)]) - moments[c]) * scale + shift;
      if (residual.data != nullptr) value += static_cast<double>(residual.as<T>()[offset_of(residual, i)]);
      y.as<T>()[offset_of(y, i)] = static_cast<T>(params.relu && value < 0 ? 0 : value);
    });
    call.out[1].as<T>()[c * call.out[1].strides[0]] = static_cast<T>(moments[c]);
    call.out[2].as<T>()[c * call.out[2].strides[0]] = static_cast<T>(moments[channels + c]);
  }
}

template <class T>
void backward_batch_norm_typed(const KernelCall& call) {
  const auto& params = call.as<BatchNormParams>();
  const View &dy = call.in[0], &x = call.in[1], &y = call.in[2], &gamma = call.in[3], &beta = call.in[4], &dx = call.out[0];
  const int64_t channels = x.dims[1];
  auto* sums = static_cast<double*>(call.scratch);  // of dz, then of dz (x - mean) / sigma
  const auto mean = [&](int64_t c) { return static_cast<double>(channel<T>(call.in[5], c, 0)); };
  const auto inverse = [&](int64_t c) { return 1 / std::sqrt(static_cast<double>(channel<T>(call.in[6], c, 0)) + params.epsilon); };
  const auto normal = [&](int64_t c, const int64_t* i) { return (static_cast<double>(x.as<T>()[offset_of(x, i)]) - mean(c)) * inverse(c); };
  const auto dz = [&](int64_t c, const int64_t* i) {
    const double d = static_cast<double>(dy.as<T>()[offset_of(dy, i)]);
    if (!params.relu) return d;
    const double z = y.data != nullptr
                         ? static_cast<double>(y.as<T>()[offset_of(y, i)])
                         : normal(c, i) * static_cast<double>(channel<T>(gamma, c, 1)) + static_cast<double>(channel<T>(beta, c, 0));
    return z > 0 ? d : 0.0;
  };
  double count = static_cast<double>(per_channel_count(x));
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, product = 0;
    for_channel(x, c, [&](const int64_t* i) {
      sum += dz(c, i);
      product += dz(c, i) * normal(c, i);
    });
    sums[c] = sum;
    sums[channels + c] = product;
    T& dgamma = call.out[1].as<T>()[c * call.out[1].strides[0]];
    T& dbeta = call.out[2].as<T>()[c * call.out[2].strides[0]];
    dgamma = static_cast<T>(product);
    dbeta = static_cast<T>(sum);
  }
  team_sum(call.team, sums, 2 * channels);
  team_sum(call.team, &count, 1);
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = static_cast<double>(channel<T>(gamma, c, 1)) * inverse(c);
    for_channel(x, c, [&](const int64_t* i) {
      const double d = dz(c, i);
      if (params.residual) call.out[3].as<T>()[offset_of(call.out[3], i)] = static_cast<T>(d);
      dx.as<T>()[offset_of(dx, i)] = static_cast<T>(scale * (d - sums[c] / count - normal(c, i) * sums[channels + c] / count));
    });
  }
}

void forward_batch_norm(const KernelCall& call) {
  call.in[0].dtype == Dtype::f64 ? forward_batch_norm_typed<double>(call) : forward_batch_norm_typed<float>(call);
}
void backward_batch_norm(const KernelCall& call) {
  call.in[0].dtype == Dtype::f64 ? backward_batch_norm_typed<double>(call) : backward_batch_norm_typed<float>(call);
}

const Kernel kBatchNormKernels[] = {
    {.op = "batch_norm", .name = "ref", .run = widened<forward_batch_norm, scratch>, .scratch_bytes = widened_scratch<scratch>},
    {.op = "batch_norm_grad", .name = "ref", .run = widened<backward_batch_norm, scratch>, .scratch_bytes = widened_scratch<scratch>},
};

}  // namespace

extern const KernelList kernels_ref_batch_norm;
const KernelList kernels_ref_batch_norm = kernel_list(kBatchNormKernels);

}  // namespace perigee
