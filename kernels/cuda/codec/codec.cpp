#include "kernels/cuda/codec/codec.h"

namespace perigee {

const CudaCodecs& codec_cuda() {
  static constexpr CudaCodecs codecs{.float_encode = codec_float_encode,
                                     .float_decode_add = codec_float_decode_add,
                                     .quantize_encode = codec_quantize_encode,
                                     .quantize_decode_add = codec_quantize_decode_add,
                                     .threshold_encode = codec_threshold_encode,
                                     .threshold_decode_add = codec_threshold_decode_add,
                                     .topk_encode = codec_topk_encode,
                                     .topk_decode_add = codec_topk_decode_add,
                                     .randomk_encode = codec_randomk_encode,
                                     .randomk_decode_add = codec_randomk_decode_add,
                                     .threshold_scratch = codec_threshold_scratch,
                                     .topk_scratch = codec_topk_scratch,
                                     .randomk_scratch = codec_randomk_scratch};
  return codecs;
}

}  // namespace perigee
