// What runs in Lua share, those of this process (run.cpp) and those of several workers (cluster_run.cpp).
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <lua.hpp>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "lua/json.h"
#include "lua/state.h"
#include "src/core/error.h"
#include "src/job/job.h"

namespace perigee {

// The first argument of pg.start: a path, or an experiment of `script`; with "path=value" settings applied.
Job job_to_start(lua_State* L, const std::string& script, const std::vector<std::string>& settings);

std::function<void()> wake_of(lua_State* L);  // wakes the prompt; never empty

// A run in a userdata: until its `close`, or until it is collected. `Type` names the metatable.
template <class T, const char* Type>
struct RunHandle {
  using Owner = std::unique_ptr<T>;

  // Error(usage) when it was closed.
  static T& at(lua_State* L, int index) {
    auto& owner = *static_cast<Owner*>(luaL_checkudata(L, index, Type));
    if (!owner) throw Error(ErrorKind::usage, {.where = "run", .what = "it was closed"});
    return *owner;
  }

  // On the top of the stack; what is assigned to it is owned by Lua.
  static Owner& push(lua_State* L) {
    auto* owner = new (lua_newuserdata(L, sizeof(Owner))) Owner();
    luaL_getmetatable(L, Type);
    lua_setmetatable(L, -2);
    return *owner;
  }

  // events(run, wait_ms): a list; waits for the first one so long, or until the run is over
  static int events(lua_State* L) {
    T& run = at(L, 1);
    const auto milliseconds = static_cast<int64_t>(luaL_checkinteger(L, 2));
    if (milliseconds > 0)
      run.wait_for_events(std::chrono::milliseconds(std::min<int64_t>(milliseconds, 3'600'000)), lua_options(L).interrupt);
    Json list = Json::array();
    for (Json& event : run.take_events()) list.push(std::move(event));
    push_json(L, list);
    return 1;
  }

  static int close(lua_State* L) {
    static_cast<Owner*>(luaL_checkudata(L, 1, Type))->reset();
    return 0;
  }

  static void add_type(lua_State* L) {
    luaL_newmetatable(L, Type);
    lua_pushcfunction(L, close);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
  }
};

}  // namespace perigee
