// How blocks of stored files come: by few requests, each answer compared with the version that was asked for, and into the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/io/store/blocks.h"
#include "src/io/store/store.h"

namespace perigee {

struct StoredBlock {
  uint64_t offset;
  std::span<std::byte> into;
};

inline constexpr uint64_t kLeastStretch = uint64_t{32} << 20;  // of neighbouring blocks that one request brings

// A reading whose answer is refused when it is another part, or a part of another version. Whether the server looks at If-Match shows so, too.
std::shared_ptr<Transfer> checked_reading(Store& store, const StoreUrl& url, uint64_t offset, std::span<std::byte> into,
                                          const StoredInfo& info);
// Reads (or maps) what the cache has, by several threads where that is much. The blocks that it does not have.
std::vector<StoredBlock> blocks_not_kept(const StoreUrl& url, const StoredInfo& info, std::span<std::byte> bytes,
                                         decltype(find_block)* find = find_block);
// Brings and keeps them. Throws when one is not of that version.
void fetch_store(Store& store, const StoreUrl& url, const StoredInfo& info, std::span<StoredBlock> blocks);

}  // namespace perigee
