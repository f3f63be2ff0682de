// Data for tests: one openable description per type of source, with the files it needs; examples of unequal classes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/core/json.h"
#include "src/data/source.h"

namespace perigee {

// Writes files into `folder`. A null description: it needs PERIGEE_DATA, which is not set.
std::map<std::string, Json> source_examples(const std::string& folder);

// A source of which errors say that it stands in "test".
SourcePtr open_json(const Json& json, const std::string& folder = ".");
SourcePtr open_parsed(const std::string& json, const std::string& folder = ".");

// 103 examples: 60 of class 0, 30 of class 1, 13 of class 2, in an order that hides them. Number i is x = 37 i mod 103, whose class is:
std::string unequal_classes();
int class_of(int64_t x);

}  // namespace perigee
