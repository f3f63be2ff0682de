// The numbers themselves. With feedback nothing is ever left over.
#include "cluster/codec/float_codec.h"
#include "cluster/codec/options.h"

namespace perigee {
namespace {

constexpr auto kFp32Options = common_options("false");

std::unique_ptr<Codec> make_fp32(const Config&, const CodecSetup& setup) { return make_float_codec(kFp32, setup); }

}  // namespace

extern const CodecDef codec_fp32;
const CodecDef codec_fp32{
    .name = "fp32", .doc = "32 bits each, nothing lost.", .format = 1, .schema = {.options = kFp32Options}, .make = make_fp32};

}  // namespace perigee
