#include "src/model/records/example_description.h"

#include <span>

#include "src/data/records/record_set.h"
#include "src/data/source.h"

namespace perigee {
namespace {

// How data of a kind are read, whichever they are: what another file of the kind takes from the job.
std::span<const char* const> reading_options(const std::string& type) {
  static constexpr const char* kCsv[] = {"decimal", "delimiter", "encoding", "header", "missing", "missing_values", "fitted"};
  static constexpr const char* kText[] = {"unit", "encoding", "lowercase", "unknown", "fitted"};
  static constexpr const char* kDocuments[] = {"text", "label", "encoding", "fitted"};
  static constexpr const char* kTextPairs[] = {"input", "output", "fitted"};
  static constexpr const char* kAudio[] = {"label", "rate", "channels", "seconds", "lengths", "classes", "fitted"};
  static constexpr const char* kImages[] = {"size", "fit", "channels", "scale", "fill", "decode", "classes"};
  static constexpr const char* kTable[] = {"delimiter", "encoding", "header", "missing", "missing_values", "steps", "target", "fitted"};
  if (type == "csv") return kCsv;
  if (type == "table") return kTable;
  if (type == "text") return kText;
  if (type == "documents") return kDocuments;
  if (type == "text_pairs") return kTextPairs;
  if (type == "images" || type == "objects") return kImages;
  if (type == "audio") return kAudio;
  return {};
}

std::vector<double> numbers_of(const Json* value) {
  std::vector<double> numbers;
  if (value && value->is_number()) numbers.push_back(value->as_number());
  if (value && value->is_array())
    for (const Json& each : value->as_array()) numbers.push_back(each.is_number() ? each.as_number() : 0);
  return numbers;
}

}  // namespace

std::string source_type(const Json& description) {
  const Json* type = description.find("type");
  return type != nullptr && type->is_string() ? type->as_string() : "";
}

const Json* source_inside(const Json& description) {
  if (const Json* source = description.find("source"); source != nullptr && source->is_object()) return source;
  const Json* sources = description.find("sources");
  return sources != nullptr && sources->is_array() && !sources->as_array().empty() ? &sources->as_array()[0] : nullptr;
}

const Json& innermost_source(const Json& description) {
  const Json* at = &description;
  while (const Json* inner = source_inside(*at)) at = inner;
  return *at;
}

bool has_transforms(const Json& description) {
  for (const Json* at = &description; at != nullptr; at = source_inside(*at))
    if (source_type(*at) == "map") return true;
  return false;
}

Json example_description(const Json& job, const Json& fitted) {
  // Fitted values go in before any part is left out: they go by position.
  const Json* data = job.find("data");
  const Json* part = data != nullptr ? data->find("test") : nullptr;
  if (data != nullptr && (part == nullptr || part->is_null())) part = data->find("train");
  return part != nullptr && part->is_object() ? records::with_prepared(with_fitted(*part, fitted)) : Json::object();
}

Json with_reading_options(Json description, const Json& leaf) {
  if (Json* source = description.find("source"); source != nullptr && source->is_object()) {
    *source = with_reading_options(*source, leaf);
  } else if (Json* sources = description.find("sources"); sources != nullptr && sources->is_array()) {
    for (Json& each : sources->as_array()) each = with_reading_options(each, leaf);
  } else if (source_type(description) == source_type(leaf)) {
    for (const char* key : reading_options(source_type(leaf)))
      if (const Json* value = leaf.find(key); value != nullptr && description.find(key) == nullptr) description.set(key, *value);
  }
  return description;
}

std::optional<TargetUnit> target_unit(const Json& description, const std::string& target) {
  std::optional<TargetUnit> unit;
  for (const Json* at = &description; at != nullptr; at = source_inside(*at)) {
    const Json* list = source_type(*at) == "map" ? at->find("transforms") : nullptr;
    if (list == nullptr || !list->is_array()) continue;
    for (const Json& transform : list->as_array()) {
      const Json *field = transform.find("field"), *fitted = transform.find("fitted");
      if (field == nullptr || *field != Json(target)) continue;
      if (unit || source_type(transform) != "standardize" || fitted == nullptr || !fitted->is_object()) return std::nullopt;
      unit = {.target = target, .mean = numbers_of(fitted->find("mean")), .deviation = numbers_of(fitted->find("std"))};
      if (unit->mean.empty() || unit->mean.size() != unit->deviation.size()) return std::nullopt;
    }
  }
  return unit;
}

}  // namespace perigee
