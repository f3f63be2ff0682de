// {"type": "npy", "x": "images.npy", "y": "labels.npy"}: one array per file; examples lie along the first dimension.
#include "src/io/npy.h"

#include "src/data/arrays.h"
#include "src/io/codec/compress.h"

namespace perigee {
namespace {

SourcePtr open_npy(const Config& config, const std::string& folder) {
  std::vector<NamedArray> arrays;
  for (const auto& [key, value] : config.json().as_object()) {
    if (key == "type" || key == "classes" || key == "class_names" || key.starts_with('@')) continue;
    const std::string path = path_in(folder, config.string(key));
    arrays.push_back(named_array(config, key, parse_npy(FileContent::open(path, uint64_t{1} << 36).bytes(), path), path));
  }
  if (arrays.empty()) config.fail("x", "is missing", "", "the path of a .npy file");
  return arrays_source(config, "npy", std::move(arrays));
}

constexpr const char* kNpyPositional[] = {"x", "y"};
constexpr Option kNpyOptions[] = {
    {"x", "file", "none", "the examples"},
    {"y", "file", "none", "their labels"},
    {"classes", "integer", "0", "number of classes of the label, whose numbers begin with 0; 0: found out", {0, 2147483648}},
    {"class_names", "any", "[]", kClassNamesDoc}};

}  // namespace

extern const SourceDef source_npy;
const SourceDef source_npy{.type = "npy",
                           .doc = "NumPy arrays, one file per field: 'x', 'y', ... Options: classes, class_names",
                           .schema = {.options = kNpyOptions, .positional = kNpyPositional, .open = true},
                           .open = open_npy};

}  // namespace perigee
