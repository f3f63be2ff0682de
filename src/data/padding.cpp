#include "src/data/padding.h"

#include "src/data/transform.h"

namespace perigee {
namespace {

const TransformDef* def_of(const Json& transform) {
  const Json* type = transform.find("type");
  for (const TransformDef* def : transform_defs())
    if (type && *type == Json(def->type)) return def;
  return nullptr;
}

void tell(Json& transform, const Json& data) {
  const TransformDef* const def = def_of(transform);
  if (!def || !def->schema.find("lengths") || transform.find("lengths") || transform.find("masks")) return;
  const Json* named = transform.find("field");
  const std::string field = named && named->is_string() ? named->as_string() : def->field;
  for (const char* key : {"lengths", "masks"}) {
    const Json* given = data.find(key);
    const Json* name = given && given->is_object() ? given->find(field) : nullptr;
    if (name && name->is_string() && !transform.find("lengths")) transform.set(key, *name);
  }
}

}  // namespace

Json with_padding(const Json& source, const Json& data) {
  if (!source.is_object() || !(data.find("lengths") || data.find("masks"))) return source;
  Json result = source;
  if (Json* transforms = result.find("transforms"); transforms && transforms->is_array())
    for (Json& transform : transforms->as_array())
      if (transform.is_object()) tell(transform, data);
  if (Json* inner = result.find("source"); inner && inner->is_object()) *inner = with_padding(*inner, data);
  if (Json* sources = result.find("sources"); sources && sources->is_array())
    for (Json& each : sources->as_array()) each = with_padding(each, data);
  return result;
}

}  // namespace perigee
