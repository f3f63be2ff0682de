// {"type": "npz", "file": "data.npz", "x": "images", "y": "labels"}: arrays of one archive; without names, all of them.
#include <algorithm>

#include "src/data/arrays.h"
#include "src/io/npy.h"

namespace perigee {
namespace {

SourcePtr open_npz(const Config& config, const std::string& folder) {
  const std::string path = path_in(folder, config.string("file"));
  std::vector<std::pair<std::string, Tensor>> found = parse_npz(read_file(path), path);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : found) names.push_back(name);
  std::vector<NamedArray> arrays;
  for (const auto& [key, value] : config.json().as_object()) {
    if (key == "type" || key == "file" || key == "classes" || key == "class_names" || key.starts_with('@')) continue;
    const std::string name = config.string(key);
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end())
      config.fail(key, "names an array that " + path + " does not have", "'" + name + "'", "", nearest_hint(name, names));
    arrays.push_back(named_array(config, key, found[static_cast<size_t>(at - names.begin())].second, path + ": " + name));
  }
  if (arrays.empty())
    for (auto& [name, tensor] : found) arrays.push_back(named_array(config, name, std::move(tensor), path + ": " + name));
  if (arrays.empty()) throw Error(ErrorKind::data, {.where = path, .what = "the archive has no arrays"});
  return arrays_source(config, "npz", std::move(arrays));
}

constexpr const char* kNpzPositional[] = {"file"};
constexpr Option kNpzOptions[] = {
    {"file", "file", nullptr, "the archive"},
    {"x", "string", "none", "name of the array with the examples"},
    {"y", "string", "none", "name of the array with the labels"},
    {"classes", "integer", "0", "number of classes of the label, whose numbers begin with 0; 0: found out", {0, 2147483648}},
    {"class_names", "any", "[]", kClassNamesDoc}};

}  // namespace

extern const SourceDef source_npz;
const SourceDef source_npz{.type = "npz",
                           .doc = "NumPy arrays of one archive 'file'; 'x', 'y', ... name them. Options: classes, class_names",
                           .schema = {.options = kNpzOptions, .positional = kNpzPositional, .open = true},
                           .open = open_npz};

}  // namespace perigee
