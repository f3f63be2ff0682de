// The options of `perigee generate`, run:generate and model:generate.
#pragma once

#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/generate/sampler.h"

namespace perigee {

extern const Schema generate_schema;

struct GenerateOptions {
  std::string prompt;
  int64_t tokens = 0;
  SamplingOptions sampling;
  int64_t beams = 1;
  double length_penalty = 1;
  std::vector<std::string> stop;
};

// `given`: an object with the schema's keys. Error(usage).
GenerateOptions generate_options(const Json& given, const std::string& where);

}  // namespace perigee
