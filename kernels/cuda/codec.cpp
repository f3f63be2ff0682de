#include "kernels/cuda/codec.h"

namespace perigee {

const CudaCodecs& codec_cuda() {
  static constexpr CudaCodecs codecs{.float_encode = codec_float_encode,
                                     .float_decode_add = codec_float_decode_add,
                                     .quantize_encode = codec_quantize_encode,
                                     .quantize_decode_add = codec_quantize_decode_add};
  return codecs;
}

}  // namespace perigee
