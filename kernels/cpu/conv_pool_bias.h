// The bias' gradient of conv2d_pool, beside that of its weights: dy where relu let something through, summed for each channel.
#pragma once

#include "kernels/cpu/conv_simd.h"
#include "kernels/kernel.h"
#include "kernels/ops/conv.h"

#ifdef PERIGEE_CONV_SIMD
namespace perigee {
namespace {

// dy and y are channels-last, call.out[1] is contiguous or not there.
inline void pool_grad_bias(const KernelCall& call) {
  if (call.n_out < 2 || !call.out[1].data) return;
  const View& dy = call.in[0];
  const int64_t channels = dy.dims[1], pixels = dy.dims[0] * dy.dims[2] * dy.dims[3];
  const bool relu = call.as<ConvParams>().relu != 0;
  for (int64_t o = 0; o < channels; o += kLanes) {
    const int lanes = channels - o < kLanes ? static_cast<int>(channels - o) : kLanes;
    const float *g = dy.as<float>() + o, *y = call.in[1].as<float>() + o;
    float* const db = call.out[1].as<float>() + o;
    const auto alive = [&](int64_t i) __attribute__((always_inline)) {
      const V v = v_load(g + i * channels, lanes);
      if (!relu) return v;
#ifdef __AVX512F__
      return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v_load(y + i * channels, lanes), v_zero(), _CMP_GT_OQ), v);
#else
      return _mm256_and_ps(v, _mm256_cmp_ps(v_load(y + i * channels, lanes), v_zero(), _CMP_GT_OQ));
#endif
    };
    V a = v_zero(), b = v_zero(), c = v_zero(), d = v_zero();
    int64_t i = 0;
    for (; i + 4 <= pixels; i += 4)
      a = v_add(a, alive(i)), b = v_add(b, alive(i + 1)), c = v_add(c, alive(i + 2)), d = v_add(d, alive(i + 3));
    for (; i < pixels; ++i) a = v_add(a, alive(i));
    V total = v_add(v_add(a, b), v_add(c, d));
    if (call.accumulate) total = v_add(total, v_load(db, lanes));
    v_store(db, total, lanes);
  }
}

}  // namespace
}  // namespace perigee
#endif
