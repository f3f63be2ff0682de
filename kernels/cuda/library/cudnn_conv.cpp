#include "kernels/cuda/library/cudnn_conv.h"

#include <utility>

#include "kernels/cuda/library/cudnn_plans.cuh"

namespace perigee {
namespace {

enum Id : int64_t { kImage = 1, kKernel, kResult, kBias, kSum, kBiased };

CudnnDescriptor geometry(const ConvParams& p) {
  const std::array<int64_t, 2> before = {p.padding[0], p.padding[2]}, after = {p.padding[1], p.padding[3]};
  const std::array<int64_t, 2> stride = {p.stride[0], p.stride[1]}, dilation = {p.dilation[0], p.dilation[1]};
  const auto pair = [](const std::array<int64_t, 2>& values) { return std::span<const int64_t>(values); };
  CudnnDescriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pair(before))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, pair(after))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, pair(stride))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, pair(dilation))
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2})
      .finalize();
  return made;
}

// The attribute names of one direction's operation.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t alpha, beta, conv, image, kernel, result;
};
constexpr Names kNames[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};

class ConvGraph : public CudnnGraph {
 public:
  explicit ConvGraph(const CudnnConv& conv) : conv_(conv) {}
  void fill_key(CudnnKey& key) const override;
  void describe(CudnnParts& parts) const override;
  Dtype dtype() const override { return conv_.dtype; }
  int most_plans() const override { return 6; }

 private:
  const CudnnConv& conv_;
};

void ConvGraph::fill_key(CudnnKey& key) const {
  const ConvParams& p = conv_.params;
  size_t at = kCudnnKeyBegin;
  for (const int64_t value : {static_cast<int64_t>(conv_.direction), static_cast<int64_t>(conv_.channels_last),
                              int64_t{conv_.bias} + 2 * conv_.accumulate + 4 * (p.relu != 0), int64_t{p.groups}})
    key[at++] = value;
  for (const auto* dims : {&conv_.image, &conv_.kernel, &conv_.result})
    for (const int64_t size : *dims) key[at++] = size;
  for (const int32_t value : p.stride) key[at++] = value;
  for (const int32_t value : p.padding) key[at++] = value;
  for (const int32_t value : p.dilation) key[at++] = value;
}

// Convolution, then bias, then relu; what lies between is virtual and stays in registers.
void ConvGraph::describe(CudnnParts& parts) const {
  const Names& names = kNames[static_cast<size_t>(conv_.direction)];
  const bool relu = conv_.params.relu != 0;
  const std::array<int64_t, 4> bias_dims = {1, conv_.result[1], 1, 1};
  const auto tensor = [&](Id id, std::span<const int64_t> dims) -> const CudnnDescriptor& {
    return parts.tensor({.id = id, .dims = dims, .type = cudnn_type(conv_.dtype), .channels_last = conv_.channels_last});
  };
  const auto inside = [&](Id id) -> const CudnnDescriptor& {
    return parts.tensor({.id = id, .dims = conv_.result, .place = CudnnPlace::inside, .channels_last = conv_.channels_last});
  };
  const auto& image = tensor(kImage, conv_.image);
  const auto& kernel = tensor(kKernel, conv_.kernel);
  const auto& result = tensor(kResult, conv_.result);
  const auto& sum = conv_.bias || relu ? inside(kSum) : result;
  const auto& biased = conv_.bias && relu ? inside(kBiased) : conv_.bias ? result : sum;
  CudnnDescriptor convolution(names.operation);
  convolution.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f)
      .set(names.beta, CUDNN_TYPE_FLOAT, conv_.accumulate ? 1.0f : 0.0f)
      .set(names.conv, parts.keep(geometry(conv_.params)))
      .set(names.image, image)
      .set(names.kernel, kernel)
      .set(names.result, sum)
      .finalize();
  parts.operation(std::move(convolution));
  if (conv_.bias) parts.pointwise(CUDNN_POINTWISE_ADD, sum, &tensor(kBias, bias_dims), biased);
  if (relu) parts.pointwise(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, result);
}

}  // namespace

bool queue_cudnn_conv(const CudnnConv& conv, const CudnnConvData& data, CudaQueue& queue, const char* name) {
  // With bias cuDNN proposes the engines of images at borders of 16 bytes for all others too; without it does not.
  uintptr_t borders = 0;
  for (const void* operand : {data.image, data.kernel, data.result}) borders |= reinterpret_cast<uintptr_t>(operand);
  if (borders % 16 != 0 && (conv.bias || conv.params.relu != 0)) return false;
  const CudnnOperand operands[] = {
      {kImage, data.image}, {kKernel, data.kernel}, {kResult, data.result}, {kBias, conv.bias ? data.bias : nullptr}};
  return queue_cudnn_graph(ConvGraph(conv), operands, queue, name);
}

bool cudnn_has_plan(const CudnnConv& conv, const char* device, const CudaQueue& queue) {
  return cudnn_has_plan(ConvGraph(conv), device, queue);
}

}  // namespace perigee
