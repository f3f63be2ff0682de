#include "cluster/policy/families.h"

#include "cluster/codec/codec.h"
#include "cluster/policy/policy.h"

namespace perigee {

std::vector<Family> all_families() {
  std::vector<Family> all = families();
  Family codecs{.name = "codec", .members = {}}, policies{.name = "policy", .members = {}};
  for (const CodecDef* def : all_codecs())
    codecs.members.push_back({.name = def->name, .doc = def->doc ? def->doc : "", .example = "", .schema = def->schema});
  for (const PolicyDef& def : all_policies())
    policies.members.push_back({.name = def.name.c_str(), .doc = def.doc.c_str(), .example = "", .schema = def.schema()});
  all.push_back(std::move(codecs));
  all.push_back(std::move(policies));
  return all;
}

}  // namespace perigee
