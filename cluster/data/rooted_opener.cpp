#include "cluster/data/rooted_opener.h"

#include <algorithm>
#include <filesystem>

#include "src/io/file.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

bool lies_within(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

// Every text of the description may be a path: which of them are is the source's affair, and a new source must not open a way out.
// Names like "mnist" are paths within the root and pass. A path that reaches the root by another way is written as one that begins
// with the root, so that the confinement holds for it.
Json checked(const Json& description, const std::string& root, const std::string& where) {
  if (description.is_string()) {
    std::error_code status;
    const fs::path path = path_in(root, description.as_string());
    const fs::path leads_to = fs::weakly_canonical(path, status);
    if (status || !lies_within(leads_to, root))
      throw Error(ErrorKind::data, {.where = where,
                                    .what = "leads out of the folder that this worker may read",
                                    .got = description.as_string(),
                                    .expected = "a path under " + root,
                                    .hint = "the agent was started with --data-root"});
    return lies_within(path, root) ? description : Json(leads_to.string());
  }
  Json copy = description;
  if (copy.is_array()) {
    for (Json& item : copy.as_array()) item = checked(item, root, where);
  } else if (copy.is_object()) {
    for (auto& [key, value] : copy.as_object()) value = checked(value, root, where + "." + key);
  }
  return copy;
}

}  // namespace

RootedOpener::RootedOpener(std::string root) : root_(std::move(root)), confined_(root_) {}

SourcePtr RootedOpener::open(const std::string& part, const Config& description, const std::string&) {
  const std::string where = description.where().empty() ? part : description.where();
  const Json inside = checked(description.json(), root_, where);
  return open_source(Config(inside, where), root_);
}

std::string RootedOpener::locate(const std::string& path, const std::string& where, const std::string&) {
  return path_in(root_, checked(Json(path), root_, where).as_string());
}

}  // namespace perigee
