// 15 levels: q * scale with scale = max |x| / 7 of the block.
#include "cluster/codec/options.h"
#include "cluster/codec/quantized.h"

namespace perigee {
namespace {

constexpr std::array<Option, 2> kInt4Own = {{
    {"block", "integer", "256", "elements that share a scale, a multiple of 64", {64, 1073741824}},
    {"rounding", "name", "nearest", "nearest, or stochastic: right on average", {}, {"nearest", "stochastic"}},
}};
constexpr auto kInt4Options = join_options(kInt4Own, common_options("false"));

std::unique_ptr<Codec> make_int4(const Config& config, const CodecSetup& setup) { return make_quantized_codec(config, setup, 4, 256); }

}  // namespace

extern const CodecDef codec_int4;
const CodecDef codec_int4{
    .name = "int4", .doc = "4 bits each and a scale for each block.", .format = 5, .schema = {.options = kInt4Options}, .make = make_int4};

}  // namespace perigee
