// Blocks of small integers with one scale each: int8, int4, int2, sign.
// Size: 16 + 4 ceil(n / block) + floor(n / block) block bits / 8 + ceil((n mod block) bits / 8).
#pragma once

#include "cluster/codec/codec.h"

namespace perigee {

// False when some code of 2 bits is 3, which stands for nothing.
bool valid_codes2(const std::byte* codes, size_t bytes);
// Scales come from outside: finite, not negative, and no larger than an encoder writes.
bool valid_scales(const std::byte* scales, int64_t count);
// Bytes of the codes of n elements.
size_t code_bytes(int64_t n, int64_t block, int bits);

// Reads the options `block`, where bits > 1 `rounding`, and at 1 and 2 bits `scale`.
std::unique_ptr<Codec> make_quantized_codec(const Config& config, const CodecSetup& setup, int bits, int64_t block);

}  // namespace perigee
