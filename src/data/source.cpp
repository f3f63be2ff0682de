#include "src/data/source.h"

#include <cassert>
#include <cstdlib>
#include <deque>

#include "src/data/transform.h"
#include "src/io/file.h"

namespace perigee {
namespace {

struct ScratchStack {
  std::deque<std::vector<std::byte>> buffers;
  size_t depth = 0;
};
thread_local ScratchStack scratch_stack;

thread_local const LeafScope::Open* leaf_opener = nullptr;

}  // namespace

Scratch::Scratch(size_t bytes) {
  if (scratch_stack.depth == scratch_stack.buffers.size()) scratch_stack.buffers.emplace_back();
  auto& buffer = scratch_stack.buffers[scratch_stack.depth];
  if (buffer.size() < bytes) buffer.resize(bytes);
  ++scratch_stack.depth;
  data_ = buffer.data();
}

Scratch::~Scratch() { --scratch_stack.depth; }

LeafScope::LeafScope(Open open) : open_(std::move(open)), outer_(leaf_opener) { leaf_opener = open_ ? &open_ : nullptr; }
LeafScope::~LeafScope() { leaf_opener = outer_; }

namespace {

bool exists(const std::string& path) { return file_exists(path) || folder_exists(path); }

// A file that is not there: where relative paths start, and whether PERIGEE_DATA has it.
std::string missing_file_hint(const Config& config, const std::string& folder) {
  const char* shared = std::getenv("PERIGEE_DATA");
  for (const auto& [key, value] : config.json().as_object()) {
    if (shared && *shared && value.is_string() && value.as_string().starts_with(std::string(shared) + "/") && !exists(value.as_string()))
      return folder_exists(shared) ? "PERIGEE_DATA is " + std::string(shared) + ", and has no such file"
                                   : "PERIGEE_DATA is " + std::string(shared) + ", and there is no such folder";
    const bool is_path = value.is_string() && key != "type" && !value.as_string().starts_with('/');
    if (!is_path || value.as_string().find_first_of("/.") == std::string::npos || exists(path_in(folder, value.as_string()))) continue;
    if (std::string near = nearby_hint(path_in(folder, value.as_string())); !near.empty()) return near;
    const std::string name = value.as_string(), start = "'" + name + "' is looked for from " + (folder == "." ? "this folder" : folder);
    if (shared == nullptr || *shared == 0)
      return start + "; shared data are found by pg.data_path \"" + name + "\" once PERIGEE_DATA names their folder";
    if (exists(path_in(shared, name))) return "it is in PERIGEE_DATA: pg.data_path \"" + name + "\"";
    return start + "; it is not in PERIGEE_DATA (" + shared + ") either";
  }
  return "";
}

SourcePtr open_leaf(const SourceDef& def, const Config& config, const std::string& folder) {
  try {
    return def.open(config, folder);
  } catch (const Error& error) {
    if (def.wraps || error.kind() != ErrorKind::data || !error.parts().hint.empty()) throw;
    Error::Parts parts = error.parts();
    parts.hint = missing_file_hint(config, folder);
    throw Error(error.kind(), std::move(parts));
  }
}

}  // namespace

size_t field_index(const DataSource& source, const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& field : source.fields()) {
    if (field.name == name) return names.size();
    names.push_back(field.name);
  }
  std::string listed;
  for (const auto& known : names) listed += (listed.empty() ? "'" : ", '") + known + "'";
  throw Error(
      ErrorKind::data,
      {.where = where, .what = "the data have no field '" + name + "'", .expected = "one of " + listed, .hint = nearest_hint(name, names)});
}

const SourceDef& source_named(const std::string& type) {
  for (const SourceDef* def : source_defs())
    if (type == def->type) return *def;
  assert(false);
  return *source_defs()[0];
}

SourcePtr open_source(const Config& config, const std::string& folder) {
  if (!config.has("type")) config.fail("type", "is missing", "", "the name of a data source, such as \"csv\" or \"images\"");
  const std::string type = config.string("type");
  std::vector<std::string> names;
  for (const SourceDef* def : source_defs()) {
    if (type != def->type) {
      names.push_back(def->type);
      continue;
    }
    const Config checked = config.with(def->schema);
    const bool elsewhere = leaf_opener != nullptr && !def->wraps;
    SourcePtr source = elsewhere ? (*leaf_opener)(checked, folder) : open_leaf(*def, checked, folder);
    if (def->schema.open && !elsewhere) checked.reject_unread();  // its fields have names of their own
    if (source->size() < 1)
      throw Error(ErrorKind::data, {.where = config.where(), .what = "the data source '" + type + "' has no examples"});
    return source;
  }
  std::string listed;
  for (const auto& known : names) listed += (listed.empty() ? "" : ", ") + known;
  config.fail("type", "names an unknown data source", "'" + type + "'", "one of " + listed, nearest_hint(type, names));
}

Json with_fitted(const Json& source, const Json& fitted) {
  const Json *type = source.find("type"), *fitted_type = fitted.find("type");
  if (type == nullptr || !type->is_string() || fitted_type == nullptr) return source;
  Json result = source;
  const bool is_map = type->as_string() == "map", fitted_map = *fitted_type == Json("map");
  if (is_map && fitted_map) {
    Json* transforms = result.find("transforms");
    const Json* values = fitted.find("transforms");
    if (transforms != nullptr && transforms->is_array() && values != nullptr && values->is_array())
      for (size_t i = 0; i < std::min(transforms->as_array().size(), values->as_array().size()); ++i) {
        Json& transform = transforms->as_array()[i];
        const Json& value = values->as_array()[i];
        if (value.is_object() && transform.is_object() && transform.find("fitted") == nullptr) transform.set("fitted", value);
      }
  }
  if (Json* inner = result.find("source"); inner != nullptr && inner->is_object()) {
    const Json* inner_fitted = is_map && fitted_map ? fitted.find("source") : &fitted;
    if (inner_fitted != nullptr) *inner = with_fitted(*inner, *inner_fitted);
  } else if (Json* sources = result.find("sources"); sources != nullptr && sources->is_array()) {
    for (Json& each : sources->as_array()) each = with_fitted(each, fitted);
  } else if (*type == *fitted_type && !is_map && result.find("fitted") == nullptr) {
    result.set("fitted", fitted);
  }
  return result;
}

}  // namespace perigee
