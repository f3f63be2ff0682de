// 3 levels. With scale = 1.5 mean |x| what is below half of it becomes nothing: of a normal distribution 0.19 of the variance is lost.
#include "cluster/codec/options.h"
#include "cluster/codec/quantized.h"

namespace perigee {
namespace {

constexpr std::array<Option, 3> kInt2Own = {{
    {"block", "integer", "1024", "elements that share a scale, a multiple of 64", {64, 1073741824}},
    {"rounding", "name", "nearest", "nearest, or stochastic: right on average", {}, {"nearest", "stochastic"}},
    {"scale", "name", "mean", "of the one level: mean (1.5 mean |x|) or largest, which stochastic rounding takes", {}, {"mean", "largest"}},
}};
constexpr auto kInt2Options = join_options(kInt2Own, common_options("true"));

std::unique_ptr<Codec> make_int2(const Config& config, const CodecSetup& setup) { return make_quantized_codec(config, setup, 2, 1024); }

}  // namespace

extern const CodecDef codec_int2;
const CodecDef codec_int2{.name = "int2",
                          .doc = "2 bits each: -1, 0 or 1 times a scale for each block.",
                          .format = 6,
                          .schema = {.options = kInt2Options},
                          .make = make_int2};

}  // namespace perigee
