// Zstandard of whole buffers, by the library that is loaded on first use.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/io/file.h"

namespace perigee {

// Appends one frame to `out`. Error(resources) where the library is not there. The same bytes for any thread.
void zstd_compress(std::span<const std::byte> bytes, int level, Bytes& out);
// Exactly out.size() bytes, of one frame or several; Error(data) at `where` when they are damaged or not as many.
void zstd_decompress(std::span<const std::byte> compressed, std::span<std::byte> out, const std::string& where);

// All frames of `compressed`, whatever they unpack to: Error(resources) beyond `limit` bytes; Error(data) with the offset when they are damaged, cut
// short or followed by something else.
Bytes unzstd(std::span<const std::byte> compressed, const std::string& where, uint64_t limit);

}  // namespace perigee
