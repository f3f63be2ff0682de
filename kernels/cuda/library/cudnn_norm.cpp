#include "kernels/cuda/library/cudnn_norm.h"

#include <utility>

#include "kernels/cuda/library/cudnn_plans.cuh"

namespace perigee {
namespace {

enum Id : int64_t {
  kX = 1,
  kResidual,
  kGamma,
  kBeta,
  kMean,
  kInverse,
  kEpsilon,
  kY,
  kDy,
  kDx,
  kMasked,
  kDgamma,
  kDbeta,
  kZero,
  kNormal,
  kSum,
  kMask
};

// The forms that cuDNN 9 has engines for; of relu's gradient no others than these two.
class NormGraph : public CudnnGraph {
 public:
  explicit NormGraph(const CudnnNorm& norm) : norm_(norm) {}
  void fill_key(CudnnKey& key) const override;
  void describe(CudnnParts& parts) const override { norm_.backward ? describe_backward(parts) : describe_forward(parts); }
  Dtype dtype() const override { return norm_.dtype; }
  int most_plans() const override { return 1; }  // each is a compilation of half a second

 private:
  using Made = const CudnnDescriptor&;
  void describe_forward(CudnnParts& parts) const;
  void describe_backward(CudnnParts& parts) const;
  Made masked_gradient(CudnnParts& parts, Made x, Made mean, Made inverse, Made gamma) const;

  Made image(CudnnParts& parts, Id id, CudnnPlace place = CudnnPlace::memory) const {
    return parts.tensor({.id = id, .dims = norm_.image, .type = cudnn_type(norm_.dtype), .place = place});
  }
  Made inside(CudnnParts& parts, Id id, cudnnDataType_t type = CUDNN_DATA_FLOAT) const {
    return parts.tensor({.id = id, .dims = norm_.image, .type = type, .place = CudnnPlace::inside});
  }
  Made of_channels(CudnnParts& parts, Id id) const {
    const int64_t dims[4] = {1, norm_.image[1], 1, 1};
    return parts.tensor({.id = id, .dims = dims});
  }
  static Made number(CudnnParts& parts, Id id) {
    constexpr int64_t kDims[4] = {1, 1, 1, 1};
    return parts.tensor({.id = id, .dims = kDims, .place = CudnnPlace::by_value});
  }

  const CudnnNorm& norm_;
};

void NormGraph::fill_key(CudnnKey& key) const {
  size_t at = kCudnnKeyBegin;
  key[at++] = 16 + norm_.backward;  // no direction of a convolution
  key[at++] = norm_.relu + 2 * norm_.residual + 4 * norm_.keeps_masked;
  for (const int64_t size : norm_.image) key[at++] = size;
}

// The attributes that training and inference share.
CudnnDescriptor forward_operation(cudnnBackendNormFwdPhase_t phase, const CudnnDescriptor& x, const CudnnDescriptor& mean,
                                  const CudnnDescriptor& inverse, const CudnnDescriptor& gamma, const CudnnDescriptor& beta,
                                  const CudnnDescriptor& y) {
  CudnnDescriptor made(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, phase)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, inverse)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, gamma)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, beta)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y);
  return made;
}

void NormGraph::describe_forward(CudnnParts& parts) const {
  const bool more = norm_.relu || norm_.residual;
  Made y = image(parts, kY), x = image(parts, kX), normal = more ? inside(parts, kNormal) : y;
  CudnnDescriptor made = forward_operation(CUDNN_NORM_FWD_TRAINING, x, of_channels(parts, kMean), of_channels(parts, kInverse),
                                           of_channels(parts, kGamma), of_channels(parts, kBeta), normal);
  made.set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, number(parts, kEpsilon)).finalize();
  parts.operation(std::move(made));
  if (!more) return;
  Made sum = !norm_.residual ? normal : norm_.relu ? inside(parts, kSum) : y;
  if (norm_.residual) parts.pointwise(CUDNN_POINTWISE_ADD, normal, &image(parts, kResidual), sum);
  if (norm_.relu) parts.pointwise(CUDNN_POINTWISE_RELU_FWD, sum, nullptr, y);
}

// dy where relu let it through: where y > 0, or where what y was made of is, once more.
NormGraph::Made NormGraph::masked_gradient(CudnnParts& parts, Made x, Made mean, Made inverse, Made gamma) const {
  Made dy = image(parts, kDy);
  if (!norm_.relu) return dy;
  Made masked = image(parts, kMasked, norm_.keeps_masked ? CudnnPlace::memory : CudnnPlace::inside);
  if (norm_.residual) {
    Made mask = inside(parts, kMask, CUDNN_DATA_BOOLEAN);
    parts.pointwise(CUDNN_POINTWISE_CMP_GT, image(parts, kY), &number(parts, kZero), mask);
    parts.pointwise(CUDNN_POINTWISE_MUL, dy, &mask, masked);
    return masked;
  }
  Made normal = inside(parts, kNormal);
  CudnnDescriptor made = forward_operation(CUDNN_NORM_FWD_INFERENCE, x, mean, inverse, gamma, of_channels(parts, kBeta), normal);
  made.finalize();
  parts.operation(std::move(made));
  parts.relu_gradient(dy, normal, masked);
  return masked;
}

void NormGraph::describe_backward(CudnnParts& parts) const {
  Made x = image(parts, kX), mean = of_channels(parts, kMean), inverse = of_channels(parts, kInverse), gamma = of_channels(parts, kGamma);
  Made gradient = masked_gradient(parts, x, mean, inverse, gamma);
  CudnnDescriptor made(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, mean)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, inverse)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, gradient)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, gamma)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, of_channels(parts, kDgamma))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, of_channels(parts, kDbeta))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, image(parts, kDx))
      .finalize();
  parts.operation(std::move(made));
}

}  // namespace

bool queue_cudnn_norm(const CudnnNorm& norm, const CudnnNormData& data, CudaQueue& queue, const char* name) {
  // Its kernels read 16 bytes at a time, whatever the descriptors say of the borders.
  uintptr_t borders = 0;
  for (const void* image : {data.x, data.residual, static_cast<const void*>(data.y), data.dy, static_cast<const void*>(data.dx),
                            static_cast<const void*>(data.masked)})
    borders |= reinterpret_cast<uintptr_t>(image);
  if (borders % 16 != 0) return false;
  static constexpr float kNothing = 0;
  const auto value = [](Id id, const float* number, bool there) {
    return CudnnOperand{.id = id, .data = there ? number : nullptr, .by_value = true};
  };
  const CudnnOperand operands[] = {{kX, data.x},
                                   {kResidual, data.residual},
                                   {kGamma, data.gamma},
                                   {kBeta, data.beta},
                                   {kMean, data.mean},
                                   {kInverse, data.inverse},
                                   {kY, data.y},
                                   {kDy, data.dy},
                                   {kDx, data.dx},
                                   {kMasked, data.masked},
                                   {kDgamma, data.dgamma},
                                   {kDbeta, data.dbeta},
                                   value(kEpsilon, &data.epsilon, !norm.backward),
                                   value(kZero, &kNothing, norm.backward && norm.relu && norm.residual)};
  return queue_cudnn_graph(NormGraph(norm), operands, queue, name);
}

bool cudnn_has_plan(const CudnnNorm& norm, const char* device, const CudaQueue& queue) {
  return cudnn_has_plan(NormGraph(norm), device, queue);
}

}  // namespace perigee
