// 255 levels: q * scale with scale = max |x| / 127 of the block.
#include "cluster/codec/options.h"
#include "cluster/codec/quantized.h"

namespace perigee {
namespace {

constexpr std::array<Option, 2> kInt8Own = {{
    {"block", "integer", "256", "elements that share a scale, a multiple of 64", {64, 1073741824}},
    {"rounding", "name", "nearest", "nearest, or stochastic: right on average", {}, {"nearest", "stochastic"}},
}};
constexpr auto kInt8Options = join_options(kInt8Own, common_options("false"));

std::unique_ptr<Codec> make_int8(const Config& config, const CodecSetup& setup) { return make_quantized_codec(config, setup, 8, 256); }

}  // namespace

extern const CodecDef codec_int8;
const CodecDef codec_int8{
    .name = "int8", .doc = "8 bits each and a scale for each block.", .format = 4, .schema = {.options = kInt8Options}, .make = make_int8};

}  // namespace perigee
