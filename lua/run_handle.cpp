#include "lua/run_handle.h"

#include "lua/job_file.h"

namespace perigee {

Job job_to_start(lua_State* L, const std::string& script, const std::vector<std::string>& settings) {
  const LuaOptions& lua = lua_options(L);
  if (lua_type(L, 1) == LUA_TSTRING) return load_job(lua_tostring(L, 1), settings, {.interrupt = lua.interrupt});
  Job job(to_json(L, 1, "pg.start"), script, lua.folder);
  apply_settings(job, settings);
  return job;
}

std::function<void()> wake_of(lua_State* L) {
  const LuaOptions& lua = lua_options(L);
  return lua.wake ? lua.wake : std::function<void()>([] {});
}

}  // namespace perigee
