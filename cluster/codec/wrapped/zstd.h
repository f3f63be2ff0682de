// Any codec's payloads compressed once more by zstd, which is loaded on first use.
#pragma once

#include "cluster/codec/codec.h"

namespace perigee {

// Error(resources) when the library is missing.
std::unique_ptr<Codec> make_zstd_codec(std::unique_ptr<Codec> inner, const CodecSetup& setup, int level);

}  // namespace perigee
