#include "src/io/nearby.h"

#include <filesystem>
#include <vector>

#include "src/core/error.h"

namespace perigee {

std::string nearby_hint(const std::string& path) {
  constexpr size_t kMostNames = 10000;
  namespace fs = std::filesystem;
  std::string plain = path;
  while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  const fs::path parent = fs::path(plain).parent_path();
  std::vector<std::string> names;
  std::error_code status;
  for (const auto& entry : fs::directory_iterator(parent.empty() ? fs::path(".") : parent, status))
    if (names.size() < kMostNames) names.push_back(entry.path().filename().string());
  return nearest_hint(fs::path(plain).filename().string(), names);
}

}  // namespace perigee
