// Everything that a description may name, with the options of each: layers, optimisers, schedules, ... `cluster/policy/families.h` adds
// what cluster has.
#pragma once

#include <string>
#include <vector>

#include "src/core/schema.h"

namespace perigee {

struct FamilyMember {
  std::string name, doc, example;  // the example is JSON, or empty
  Schema schema;
};

// `name` is that of OptionType::family.
struct Family {
  const char* name = nullptr;
  std::vector<FamilyMember> members;
  const Schema* plain = nullptr;  // of a family without members: its objects have no "type"
};

std::vector<Family> families();

}  // namespace perigee
