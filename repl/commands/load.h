// Reading what the user names: a Lua script, a JSON or YAML job, a run folder.
#pragma once

#include <string>
#include <vector>

#include "src/job/job.h"

namespace perigee {

// SCRIPT.lua is evaluated (Ctrl-C ends it), .json, .yaml and .yml are read; a run folder stands for its job.json. `settings` are
// "path=value", applied in order. Error(usage) with the nearest file name when there is no such file.
Job load_job(const std::string& path, const std::vector<std::string>& settings);

// The model file that `path` names: itself, or a run folder's model.safetensors. Error(usage) with the nearest name.
std::string model_path(const std::string& path);

bool is_model(const std::string& path);  // by its name

}  // namespace perigee
