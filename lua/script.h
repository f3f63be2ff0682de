// Evaluates a Lua script to the job that it describes. Nothing of the script lives on: what trains is the job.
#pragma once

#include <string>
#include <string_view>

#include "lua/state.h"
#include "src/core/json.h"

namespace perigee {

// The table that the script returns, which pg.experiment made. Layers carry their position under "@". Errors: Error(usage) when
// there is no such file, Error(model) with file and line for anything that the script does wrong, Error(resources) when it needs
// more memory than `options` allow. Relative requires start from the script's folder.
Json evaluate_script(const std::string& path, const LuaOptions& options = {});

// The same for text; `name` appears in positions.
Json evaluate_script_text(std::string_view text, const std::string& name, const LuaOptions& options = {});

}  // namespace perigee
