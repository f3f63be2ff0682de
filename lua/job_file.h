// Reads a job from a path: a Lua script, a JSON or YAML job, a run folder.
#pragma once

#include <string>
#include <vector>

#include "lua/state.h"
#include "src/job/job.h"

namespace perigee {

// SCRIPT.lua is evaluated, .json, .yaml and .yml are read; a run folder stands for its job.json. `settings` are "path=value", applied in
// order. Error(usage) with the nearest file name when there is no such file.
Job load_job(const std::string& path, const std::vector<std::string>& settings, const LuaOptions& options);

// "path=value", applied in order. Error(usage) when one is no such thing, or the path is not there.
void apply_settings(Job& job, const std::vector<std::string>& settings);

// Error(usage) that `path` is not there, with the nearest name that is.
[[noreturn]] void no_such_file(const std::string& path);

}  // namespace perigee
