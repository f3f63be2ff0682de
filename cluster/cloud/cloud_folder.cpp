#include "cluster/cloud/cloud_folder.h"

#include <cstdio>

#include "src/io/file.h"
#include "src/io/store/store.h"

namespace perigee {

std::string CloudFolder::output(int piece) const {
  char name[16];
  std::snprintf(name, sizeof name, "%08d", piece);
  return address_ + "/log/" + name;
}

std::string text_in_store(const std::string& path) {
  constexpr uint64_t kMost = 2 << 20;
  return stat_stored(path).kind == StoredKind::file ? std::string(as_text(read_file(path, kMost))) : "";
}

}  // namespace perigee
