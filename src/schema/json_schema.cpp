#include "src/schema/json_schema.h"

#include <cmath>
#include <cstring>

#include "src/job/job_schema.h"

namespace perigee {
namespace {

Json object(Json::Object members) { return Json(std::move(members)); }
Json typed(const char* type) { return object({{"type", type}}); }
Json reference(const std::string& name) { return object({{"$ref", "#/$defs/" + name}}); }

Json any_of(Json::Array choices) { return choices.size() == 1 ? std::move(choices[0]) : object({{"anyOf", std::move(choices)}}); }

Json number_schema(const Option& option, bool whole) {
  Json schema = typed(whole ? "integer" : "number");
  if (std::isfinite(option.range.low)) schema.set("minimum", option.range.low);
  if (std::isfinite(option.range.high)) schema.set("maximum", option.range.high);
  return schema;
}

Json object_schema(const Schema& schema, const char* type, const std::string& doc, bool required);

// An object whose members are named by the job: outputs with their losses, patterns of layers with their policies.
bool by_name(const OptionType& type) { return std::strstr(type.text, ": ") != nullptr; }

Json value_schema(const Option& option, ValueSet values) {
  const char* family = option.type->family;
  Json::Array choices;
  if (values & takes::boolean) choices.push_back(typed("boolean"));
  if ((values & takes::number) == takes::number) choices.push_back(number_schema(option, false));
  else if (values & takes::integer) choices.push_back(number_schema(option, true));
  if (values & takes::string) {
    Json::Array names;
    for (const char* name : option.allowed()) names.emplace_back(name);
    if (family != nullptr) choices.push_back(reference(std::string(family) + " name"));
    else choices.push_back(names.empty() ? typed("string") : object({{"enum", std::move(names)}}));
  }
  if (values & takes::list) {
    Json list = typed("array");
    if (option.type->items != takes::anything) list.set("items", value_schema(option, option.type->items));
    else if (option.inside != nullptr) list.set("items", value_schema(option, takes::object));
    choices.push_back(std::move(list));
  }
  if (values & takes::object) {
    if (family != nullptr) choices.push_back(reference(family));
    else choices.push_back(option.inside ? object_schema(*option.inside, nullptr, "", true) : typed("object"));
    if (option.type == "network")  // a list of layers with defaults
      choices.push_back(object({{"required", Json::Array{"layers"}}, {"not", object({{"required", Json::Array{"type"}}})}}));
    if (family != nullptr && by_name(*option.type))
      choices.push_back(object({{"type", "object"}, {"not", object({{"required", Json::Array{"type"}}})}}));
  }
  return any_of(std::move(choices));
}

Json option_schema(const Option& option) {
  Json schema = value_schema(option, option.type->values);
  Json::Array choices;
  if (Json* given = schema.find("anyOf")) choices = std::move(given->as_array());
  else choices.push_back(std::move(schema));
  choices.push_back(typed("null"));  // counts as absent
  Json all = object({{"anyOf", std::move(choices)}});
  std::string doc = option.doc;
  if (option.units != nullptr) doc += std::string(" (") + option.units + ")";
  all.set("description", std::move(doc));
  if (Json fallback = fallback_value(option); !fallback.is_null()) all.set("default", std::move(fallback));
  return all;
}

Json object_schema(const Schema& schema, const char* type, const std::string& doc, bool required) {
  Json properties = Json::object();
  Json::Array needed;
  if (type != nullptr) {
    properties.set("type", object({{"const", type}}));
    needed.emplace_back("type");
  }
  for (const Option* option : schema.all()) {
    properties.set(option->name, option_schema(*option));
    if (required && option->required()) needed.emplace_back(option->name);
  }
  Json all = typed("object");
  if (!doc.empty()) all.set("description", doc);
  all.set("properties", std::move(properties));
  if (!needed.empty()) all.set("required", std::move(needed));
  all.set("patternProperties", object({{"^@", Json(true)}}));  // positions in a script
  if (!schema.open) all.set("additionalProperties", false);
  return all;
}

// An object of the family is that of the member which its "type" names: the error of a wrong option is then its own, not "matches none".
void add_family(const Family& family, Json& defs) {
  const std::string name = family.name;
  if (family.plain != nullptr) {
    defs.set(name, object_schema(*family.plain, nullptr, "", true));
    return;
  }
  Json::Array names, cases;
  for (const FamilyMember& member : family.members) {
    names.emplace_back(member.name);
    // A layer's options may come from the network's "defaults".
    defs.set(name + " " + member.name, object_schema(member.schema, member.name, member.doc, name != "layer"));
    Json is = object({{"properties", object({{"type", object({{"const", member.name}})}})}, {"required", Json::Array{"type"}}});
    cases.push_back(object({{"if", std::move(is)}, {"then", reference(name + " " + member.name)}}));
  }
  Json type = object({{"enum", names}});
  defs.set(name + " name", object({{"enum", std::move(names)}}));
  defs.set(name, object({{"type", "object"},
                         {"properties", object({{"type", std::move(type)}})},
                         {"required", Json::Array{"type"}},
                         {"allOf", std::move(cases)}}));
}

}  // namespace

Json job_json_schema(std::span<const Family> families) {
  Json schema = object({{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "A job of Perigee"}});
  const Json job = object_schema(job_schema, nullptr, "", true);
  for (const auto& [key, value] : job.as_object()) schema.set(key, value);
  Json defs = Json::object();
  for (const Family& family : families) add_family(family, defs);
  schema.set("$defs", std::move(defs));
  return schema;
}

}  // namespace perigee
