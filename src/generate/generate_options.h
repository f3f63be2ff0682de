// The options of `perigee generate`, run:generate and model:generate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/generate/sampler.h"

namespace perigee {

extern const Schema generate_schema;

struct GenerateOptions {
  std::optional<std::string> prompt, input;  // a model takes the one or the other, or both
  int64_t tokens = 0;
  SamplingOptions sampling;
  int64_t beams = 1;
  double length_penalty = 1;
  std::vector<std::string> stop;
};

// `given`: an object with the schema's keys. Error(usage).
GenerateOptions generate_options(const Json& given, const std::string& where);

}  // namespace perigee
