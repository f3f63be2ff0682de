// 1-bit SGD (Seide et al. 2014) with one scale, mean |x|, for each block: a zero counts as positive. Or the signs alone, as votes (signSGD,
// Bernstein et al. 2018).
#include "cluster/codec/options.h"
#include "cluster/codec/quantized.h"

namespace perigee {
namespace {

constexpr std::array<Option, 2> kSignOwn = {{
    {"block", "integer", "1024", "elements that share a scale, a multiple of 64", {64, 1073741824}},
    {"scale", "name", "mean", "what a sign stands for: mean, of the block's magnitudes, or one, without feedback", {}, {"mean", "one"}},
}};
constexpr auto kSignOptions = join_options(kSignOwn, common_options("true"));

std::unique_ptr<Codec> make_sign(const Config& config, const CodecSetup& setup) { return make_quantized_codec(config, setup, 1, 1024); }

}  // namespace

extern const CodecDef codec_sign;
const CodecDef codec_sign{.name = "sign",
                          .doc = "1 bit each: the sign, times a scale for each block.",
                          .format = 7,
                          .schema = {.options = kSignOptions},
                          .make = make_sign};

}  // namespace perigee
