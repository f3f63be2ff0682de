// 11 bits of precision, up to 65504: a larger magnitude cannot be encoded.
#include "cluster/codec/float_codec.h"
#include "cluster/codec/options.h"

namespace perigee {
namespace {

constexpr auto kFp16Options = common_options("false");

std::unique_ptr<Codec> make_fp16(const Config&, const CodecSetup& setup) { return make_float_codec(kFp16, setup); }

}  // namespace

extern const CodecDef codec_fp16;
const CodecDef codec_fp16{.name = "fp16",
                          .doc = "16 bits each, up to 65504, relative error at most 1/2048.",
                          .format = 3,
                          .schema = {.options = kFp16Options},
                          .make = make_fp16};

}  // namespace perigee
