// YAML as another spelling of JSON: one document of mappings with string keys, sequences and scalars of the YAML 1.2 core schema.
// As strict as the JSON reader: depth at most 64, duplicate keys refused; tags and merge keys are refused as well. What an alias stands for
// counts as if it were written there, so that a short text cannot stand for a huge value.
#pragma once

#include <string_view>

#include "src/core/json.h"

namespace perigee {

// Throws Error(model) with line and column; `where` names the text ("job.yaml").
Json parse_yaml(std::string_view text, std::string_view where, size_t max_values = 4'000'000);

}  // namespace perigee
