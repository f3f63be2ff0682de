// Everything that a description may name, with the options of each: layers, optimisers, schedules, ... `cluster/policy/families.h` adds
// what cluster has.
#pragma once

#include <vector>

#include "src/core/schema.h"

namespace perigee {

// Views of a definition, which lives as long as the program: a script's start lists families many times.
struct FamilyMember {
  const char* name = "";
  const char* doc = "";
  const char* example = "";  // JSON, or empty
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
