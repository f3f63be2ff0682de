// The central directory of a ZIP archive, and the content of its entries (stored or deflated, ZIP64 sizes). Encrypted and split archives,
// entries that overlap, and sizes beyond deflate's ratio are refused.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/io/file.h"

namespace perigee {

struct ZipEntry {
  std::string name;
  uint64_t offset = 0;      // of its data in the archive
  uint64_t compressed = 0;  // bytes
  uint64_t size = 0;        // bytes when decompressed
  uint32_t crc = 0;
  bool deflated = false;
};

// In the archive's order. Error(data) with `where` and the offset.
std::vector<ZipEntry> zip_entries(std::span<const std::byte> archive, const std::string& where);
// An archive of stored (not compressed) files, below 4 GiB.
Bytes zip_bytes(std::span<const std::pair<std::string, Bytes>> files);

Bytes zip_content(std::span<const std::byte> archive, const ZipEntry& entry, const std::string& where);

}  // namespace perigee
