// Blocks of stored files that the user's cache folder keeps: $XDG_CACHE_HOME/perigee/blocks, at most PERIGEE_STORE_CACHE_MB (8192; 0: none).
// A block is bound to its file's address and version, so that it never is another content.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace perigee {

inline constexpr uint64_t kBlockBytes = uint64_t{4} << 20;

// False: it is not there.
bool find_block(const std::string& url, const std::string& version, uint64_t offset, std::span<std::byte> into);
// The same, with the block mapped over `into`, as map_cached_over does.
bool map_block(const std::string& url, const std::string& version, uint64_t offset, std::span<std::byte> into);
bool has_block(const std::string& url, const std::string& version, uint64_t offset);
void keep_block(const std::string& url, const std::string& version, uint64_t offset, std::span<const std::byte> content);

}  // namespace perigee
