// The regular files in a tar archive (ustar; names and sizes of GNU's and pax headers too): names and where their bytes are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/io/file.h"

namespace perigee {

struct TarEntry {
  std::string name;  // as stored; never used as a path
  std::span<const std::byte> content;
};

// In the archive's order. Error(data) with `where` and the offset where it is damaged or cut short.
std::vector<TarEntry> tar_entries(std::span<const std::byte> archive, const std::string& where);

}  // namespace perigee
