#include "kernels/ops/layer_norm.h"

#include <cmath>

#include "kernels/ref/strided.h"
#include "kernels/ref/widened.h"
#include "kernels/registry.h"

namespace perigee {
namespace {

// One row of [..., K] operands: calls f(index of the row).
template <class F>
void layer_norm_for_rows(const View& x, F f) {
  for_each_index(x.rank - 1, x.dims, f);
}

template <class T>
struct LayerNormRow {
  T* data;
  int64_t stride;
  LayerNormRow(const View& view, const int64_t* index) : data(view.as<T>()), stride(view.strides[view.rank - 1]) {
    for (int i = 0; i + 1 < view.rank; ++i) data += index[i] * view.strides[i];
  }
  T& operator[](int64_t k) const { return data[k * stride]; }
};

template <class T>
double layer_norm_element(const View& view, int64_t k, double absent) {
  return view.data == nullptr ? absent : static_cast<double>(view.as<T>()[k * view.strides[0]]);
}

template <class T>
void forward_layer_norm_typed(const KernelCall& call) {
  const View& x = call.in[0];
  const View gamma = call.n_in > 1 ? call.in[1] : View{}, beta = call.n_in > 2 ? call.in[2] : View{};
  const int64_t k = x.dims[x.rank - 1];
  layer_norm_for_rows(x, [&](const int64_t* index) {
    const LayerNormRow<T> from(x, index), to(call.out[0], index);
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < k && call.as<LayerNormParams>().centre; ++i) mean += static_cast<double>(from[i]);
    mean /= static_cast<double>(k);
    for (int64_t i = 0; i < k; ++i) variance += (static_cast<double>(from[i]) - mean) * (static_cast<double>(from[i]) - mean);
    const double inverse = 1 / std::sqrt(variance / static_cast<double>(k) + call.as<LayerNormParams>().epsilon);
    for (int64_t i = 0; i < k; ++i)
      to[i] = static_cast<T>((static_cast<double>(from[i]) - mean) * inverse * layer_norm_element<T>(gamma, i, 1) +
                             layer_norm_element<T>(beta, i, 0));
    call.out[1].as<T>()[offset_of(call.out[1], index)] = static_cast<T>(mean);
    call.out[2].as<T>()[offset_of(call.out[2], index)] = static_cast<T>(inverse);
  });
}

template <class T>
void backward_layer_norm_typed(const KernelCall& call) {
  const View &x = call.in[1], &gamma = call.in[2];
  const int64_t k = x.dims[x.rank - 1];
  layer_norm_for_rows(x, [&](const int64_t* index) {
    const LayerNormRow<T> dy(call.in[0], index), from(x, index), dx(call.out[0], index);
    const double mean = static_cast<double>(call.in[3].as<T>()[offset_of(call.in[3], index)]);
    const double inverse = static_cast<double>(call.in[4].as<T>()[offset_of(call.in[4], index)]);
    double sum = 0, product = 0;
    for (int64_t i = 0; i < k; ++i) {
      const double g = static_cast<double>(dy[i]) * layer_norm_element<T>(gamma, i, 1);
      if (call.as<LayerNormParams>().centre) sum += g;
      product += g * (static_cast<double>(from[i]) - mean) * inverse;
    }
    for (int64_t i = 0; i < k; ++i) {
      const double g = static_cast<double>(dy[i]) * layer_norm_element<T>(gamma, i, 1),
                   normal = (static_cast<double>(from[i]) - mean) * inverse;
      dx[i] = static_cast<T>(inverse * (g - (sum + normal * product) / static_cast<double>(k)));
    }
  });
}

template <class T>
void params_typed(const KernelCall& call) {
  const View& x = call.in[1];
  const int64_t k = x.dims[x.rank - 1];
  for (int64_t i = 0; i < k; ++i) {
    double product = 0, sum = 0;
    layer_norm_for_rows(x, [&](const int64_t* index) {
      const double dy = static_cast<double>(LayerNormRow<T>(call.in[0], index)[i]);
      const double centred =
          static_cast<double>(LayerNormRow<T>(x, index)[i]) - static_cast<double>(call.in[2].as<T>()[offset_of(call.in[2], index)]);
      product += dy * centred * static_cast<double>(call.in[3].as<T>()[offset_of(call.in[3], index)]);
      sum += dy;
    });
    T& dgamma = call.out[0].as<T>()[i * call.out[0].strides[0]];
    T& dbeta = call.out[1].as<T>()[i * call.out[1].strides[0]];
    dgamma = static_cast<T>(product + (call.accumulate ? static_cast<double>(dgamma) : 0));
    dbeta = static_cast<T>(sum + (call.accumulate ? static_cast<double>(dbeta) : 0));
  }
}

void forward_layer_norm(const KernelCall& call) {
  call.in[0].dtype == Dtype::f64 ? forward_layer_norm_typed<double>(call) : forward_layer_norm_typed<float>(call);
}
void backward_layer_norm(const KernelCall& call) {
  call.in[0].dtype == Dtype::f64 ? backward_layer_norm_typed<double>(call) : backward_layer_norm_typed<float>(call);
}
void params(const KernelCall& call) { call.in[0].dtype == Dtype::f64 ? params_typed<double>(call) : params_typed<float>(call); }

const Kernel kLayerNormKernels[] = {
    {.op = "layer_norm", .name = "ref", .run = widened<forward_layer_norm>, .scratch_bytes = widened_scratch<>},
    {.op = "layer_norm_grad", .name = "ref", .run = widened<backward_layer_norm>, .scratch_bytes = widened_scratch<>},
    {.op = "layer_norm_grad_params", .name = "ref", .run = widened<params>, .scratch_bytes = widened_scratch<>, .accumulates = true},
};

}  // namespace

extern const KernelList kernels_ref_layer_norm;
const KernelList kernels_ref_layer_norm = kernel_list(kLayerNormKernels);

}  // namespace perigee
