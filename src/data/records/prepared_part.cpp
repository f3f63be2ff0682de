#include <algorithm>

#include "src/data/records/prepare.h"
#include "src/data/transform.h"

namespace perigee::records {
namespace {

std::string prepared_part_type_of(const Json& description) {
  const Json* type = description.find("type");
  return type != nullptr && type->is_string() ? type->as_string() : "";
}

bool draws(const Json& transform) {
  const Json* random = transform.find("random");
  return std::any_of(transform_defs().begin(), transform_defs().end(), [&](const TransformDef* def) {
    return prepared_part_type_of(transform) == def->type && def->random && (random == nullptr || *random != Json(false));
  });
}

Json map_of(const Json& map, Json source, Json::Array transforms) {
  if (transforms.empty()) return source;
  Json result = map;
  result.set("source", std::move(source));
  result.set("transforms", Json(std::move(transforms)));
  return result;
}

PreparedPart cut_map(const Json& map, const PreparedPart& inner, const Json& leaf, bool encoded) {
  const Json* list = map.find("transforms");
  if (list == nullptr || !list->is_array()) return {inner.stored, map};
  const Json::Array& all = list->as_array();
  const bool whole = inner.around == leaf && !encoded;
  const auto first = whole ? std::find_if(all.begin(), all.end(), draws) : all.begin();
  return {whole ? map_of(map, inner.stored, {all.begin(), first}) : inner.stored, map_of(map, inner.around, {first, all.end()})};
}

}  // namespace

PreparedPart prepared_part(const Json& description, const Json& leaf, bool encoded) {
  static constexpr const char* kRandom[] = {"mixup", "cutmix", "balanced", "masked_lm", "packed"};
  const std::string type = prepared_part_type_of(description);
  if (const Json* source = description.find("source"); source != nullptr && source->is_object()) {
    const PreparedPart inner = prepared_part(*source, leaf, encoded);
    if (type == "map") return cut_map(description, inner, leaf, encoded);
    const bool random = std::any_of(std::begin(kRandom), std::end(kRandom), [&](const char* name) { return type == name; });
    if (!encoded && !random && inner.around == leaf) return {description, leaf};
    Json around = description;
    around.set("source", inner.around);
    return {inner.stored, std::move(around)};
  }
  if (const Json* sources = description.find("sources"); sources != nullptr && sources->is_array())
    for (const Json& each : sources->as_array())
      if (encoded || prepared_part(each, leaf, encoded).around != leaf)
        throw Error(ErrorKind::usage, {.where = "perigee data prepare",
                                       .what = "sources inside '" + type + "' that draw, or are kept encoded, cannot be prepared together",
                                       .hint = "prepare each of them, or put the random transforms around '" + type + "'"});
  return {description, leaf};
}

}  // namespace perigee::records
