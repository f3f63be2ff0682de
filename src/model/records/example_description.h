// Descriptions of sources as a job has them, taken apart: the chain of sources inside each other, and what another file is read like.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/core/json.h"

namespace perigee {

// Turns outputs for a standardized target into numbers of the data: x * deviation + mean, by groups of neighbouring elements.
struct TargetUnit {
  std::string target;
  std::vector<double> mean, deviation;
};

// The key "type", or "".
std::string source_type(const Json& description);
// The source inside that comes first, or null.
const Json* source_inside(const Json& description);
const Json& innermost_source(const Json& description);
bool has_transforms(const Json& description);

// The description of the data that gives examples their form, with what was fitted; an empty object where the job names none.
Json example_description(const Json& job, const Json& fitted);
// Every source of the kind of `leaf` inside `description`, with the options of reading in `leaf` that it leaves out.
Json with_reading_options(Json description, const Json& leaf);
// The unit of `target` where one standardize, and nothing else, changes it.
std::optional<TargetUnit> target_unit(const Json& description, const std::string& target);

}  // namespace perigee
