// The range of float32, 8 bits of precision.
#include "cluster/codec/float_codec.h"
#include "cluster/codec/options.h"

namespace perigee {
namespace {

constexpr auto kBf16Options = common_options("false");

std::unique_ptr<Codec> make_bf16(const Config&, const CodecSetup& setup) { return make_float_codec(kBf16, setup); }

}  // namespace

extern const CodecDef codec_bf16;
const CodecDef codec_bf16{.name = "bf16",
                          .doc = "16 bits each: the range of float32, relative error at most 1/256.",
                          .format = 2,
                          .schema = {.options = kBf16Options},
                          .make = make_bf16};

}  // namespace perigee
