// A JSON Schema (draft 2020-12) of a job, for editors that check job.json and job.yaml.
#pragma once

#include <span>

#include "src/core/json.h"
#include "src/schema/families.h"

namespace perigee {

Json job_json_schema(std::span<const Family> families);

}  // namespace perigee
