// Compressed blocks whose plain size is known beforehand, as columnar files have them. Each function writes exactly out.size() bytes, or throws
// Error(data) at `where` for what is damaged; nothing else is allocated.
#pragma once

#include <span>
#include <string>

#include "src/io/file.h"

namespace perigee {

using ConstBytes = std::span<const std::byte>;

void snappy_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where);
void lz4_block_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where);
void lz4_frame_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where);
// Hadoop's frames of LZ4 blocks, with sizes in big-endian order; false: it is none, and `out` is not filled.
bool lz4_hadoop_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where);
void gzip_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where);    // members one after the other
void brotli_decompress(ConstBytes in, std::span<std::byte> out, const std::string& where);  // by a library, loaded on first use

}  // namespace perigee
