#include "lua/bindings.h"

#include <string>
#include <vector>

#include "cluster/policy/policy.h"
#include "lua/cluster_run.h"
#include "lua/guard.h"
#include "lua/json.h"
#include "lua/modules.h"
#include "lua/reference.h"
#include "lua/run.h"
#include "lua/state.h"
#include "lua/tensor.h"
#include "src/core/error.h"
#include "src/data/transform.h"
#include "src/graph/op.h"
#include "src/job/job_keys.h"
#include "src/model/evaluation.h"
#include "src/nn/initializer.h"
#include "src/nn/layer.h"
#include "src/nn/loss.h"
#include "src/optim/optimizer_def.h"
#include "src/optim/schedule.h"

namespace perigee {
namespace {

void set_text(lua_State* L, const char* key, const char* text) {
  if (!text) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

// native.layers(): {{name=, doc=, options={{name=, type=, fallback=, doc=}, ...}, positional={...}}, ...}
int layers(lua_State* L) {
  lua_newtable(L);
  int index = 0;
  for (const LayerDef* def : all_layers()) {
    lua_newtable(L);
    set_text(L, "name", def->name);
    set_text(L, "stem", def->stem ? def->stem : def->name);
    set_text(L, "doc", def->doc);
    set_text(L, "example", def->example);
    lua_newtable(L);
    int option_index = 0;
    for (const OptionDef& option : def->options) {
      lua_newtable(L);
      set_text(L, "name", option.name);
      set_text(L, "type", option.type);
      set_text(L, "fallback", option.fallback);
      set_text(L, "doc", option.doc);
      lua_rawseti(L, -2, ++option_index);
    }
    lua_setfield(L, -2, "options");
    lua_newtable(L);
    int position = 0;
    for (const char* name : def->positional) {
      lua_pushstring(L, name);
      lua_rawseti(L, -2, ++position);
    }
    lua_setfield(L, -2, "positional");
    lua_rawseti(L, -2, ++index);
  }
  return 1;
}

// native.common_layer_options(): names that every layer accepts
int common_options(lua_State* L) {
  lua_newtable(L);
  int index = 0;
  for (const OptionDef& option : common_layer_options()) {
    lua_pushstring(L, option.name);
    lua_rawseti(L, -2, ++index);
  }
  return 1;
}

// native.ops(): {{name=, doc=, min=, max=}, ...} of the ops that programs may name; max -1: any number of operands
int ops(lua_State* L) {
  lua_newtable(L);
  int index = 0;
  for (const OpDef* def : all_ops()) {
    if (def->internal || def->max_inputs == 0) continue;
    lua_newtable(L);
    set_text(L, "name", def->name);
    set_text(L, "doc", def->doc);
    lua_pushinteger(L, def->min_inputs);
    lua_setfield(L, -2, "min");
    lua_pushinteger(L, def->max_inputs);
    lua_setfield(L, -2, "max");
    lua_rawseti(L, -2, ++index);
  }
  return 1;
}

// native.check_attributes(op, attrs): an error where the op is recorded
int check_attributes_of(lua_State* L) {
  const OpDef& op = op_named(luaL_checkstring(L, 1));
  try {
    check_attributes(op.attributes, to_json(L, 2, op.name));
  } catch (const Error& error) {
    throw error.within(op.name);
  }
  return 0;
}

// Pushes the names of a registry as a list.
template <class Registry>
int push_names(lua_State* L, const Registry& registry) {
  lua_newtable(L);
  int index = 0;
  for (const auto* def : registry) {
    lua_pushstring(L, def->name);
    lua_rawseti(L, -2, ++index);
  }
  return 1;
}

// native.optimizers(): {{name=, doc=, options={names}}, ...}
int optimizers(lua_State* L) {
  lua_newtable(L);
  int index = 0;
  for (const OptimizerDef* def : all_optimizers()) {
    lua_newtable(L);
    set_text(L, "name", def->name);
    set_text(L, "doc", def->doc);
    lua_newtable(L);
    int option = 0;
    for (const char* name : option_names(*def)) {
      lua_pushstring(L, name);
      lua_rawseti(L, -2, ++option);
    }
    lua_setfield(L, -2, "options");
    lua_rawseti(L, -2, ++index);
  }
  return 1;
}

void push_strings(lua_State* L, const std::vector<std::string>& strings) {
  lua_newtable(L);
  int index = 0;
  for (const std::string& text : strings) {
    lua_pushlstring(L, text.data(), text.size());
    lua_rawseti(L, -2, ++index);
  }
}

// native.policies(): {{name=, doc=, options={names}, positional={names}}, ...}
int policies(lua_State* L) {
  lua_newtable(L);
  int index = 0;
  for (const PolicyDef& def : all_policies()) {
    lua_newtable(L);
    set_text(L, "name", def.name.c_str());
    set_text(L, "doc", def.doc.c_str());
    std::vector<std::string> names;
    for (const PolicyOption& option : def.options) names.push_back(option.name);
    push_strings(L, names);
    lua_setfield(L, -2, "options");
    push_strings(L, def.positional);
    lua_setfield(L, -2, "positional");
    lua_rawseti(L, -2, ++index);
  }
  return 1;
}

// native.check_policy(averaging): nothing, or why it cannot be used
int check_policy(lua_State* L) {
  const Json averaging = to_json(L, 1, "averaging");
  try {
    read_policy(&averaging, "");
    return 0;
  } catch (const Error& error) {
    lua_pushstring(L, error.what());
  }
  return 1;
}

// native.outer_ops(): names of the ops that an outer step may use
int outer_op_names(lua_State* L) {
  push_strings(L, outer_ops());
  return 1;
}

int losses(lua_State* L) { return push_names(L, all_losses()); }
int sources(lua_State* L) {
  lua_newtable(L);
  int index = 0;
  for (const SourceDef* def : source_defs()) {
    lua_pushstring(L, def->type);
    lua_rawseti(L, -2, ++index);
  }
  return 1;
}

int transforms(lua_State* L) {
  lua_newtable(L);
  int index = 0;
  for (const TransformDef* def : transform_defs()) {
    lua_pushstring(L, def->type);
    lua_rawseti(L, -2, ++index);
  }
  return 1;
}

int initializers(lua_State* L) { return push_names(L, all_initializers()); }
int schedules(lua_State* L) { return push_names(L, all_schedules()); }
int evaluations(lua_State* L) { return push_names(L, all_evaluations()); }

// native.nearest(name, {known, ...}): "did you mean 'x'?" or ""
int nearest(lua_State* L) {
  const std::string name = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  std::vector<std::string> known;
  for (int i = 1; i <= static_cast<int>(lua_objlen(L, 2)); ++i) {
    lua_rawgeti(L, 2, i);
    if (const char* text = lua_tostring(L, -1)) known.emplace_back(text);
    lua_pop(L, 1);
  }
  const std::string hint = nearest_hint(name, known);
  lua_pushlstring(L, hint.data(), hint.size());
  return 1;
}

// native.script(): name, text; nothing before a script was loaded
int script(lua_State* L) {
  lua_getfield(L, LUA_REGISTRYINDEX, kScriptName);
  lua_getfield(L, LUA_REGISTRYINDEX, kScriptText);
  return 2;
}

// native.module_text(name): the source of one of our own modules, or nothing
int module_text(lua_State* L) {
  const LuaModule* module = find_lua_module(luaL_checkstring(L, 1));
  if (!module) return 0;
  lua_pushlstring(L, module->text.data(), module->text.size());
  return 1;
}

// native.list{...}: the same table, a list even when it is empty
int list(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mark_list(L);
  return 1;
}

// native.to_json(value [, indent]): text
int to_json_text(lua_State* L) {
  luaL_checkany(L, 1);
  const std::string text = to_json(L, 1, "value").dump(static_cast<int>(luaL_optinteger(L, 2, 0)));
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

// native.interrupted(): whether Ctrl-C was pressed
int interrupted(lua_State* L) {
  const std::atomic<bool>* interrupt = lua_options(L).interrupt;
  lua_pushboolean(L, interrupt && *interrupt);
  return 1;
}

// native.job_keys(part): what may stand at the top level ("") of a job and in its "data"
int job_key_names(lua_State* L) {
  lua_newtable(L);
  int index = 0;
  for (const std::string& key : job_keys(luaL_checkstring(L, 1))) {
    lua_pushlstring(L, key.data(), key.size());
    lua_rawseti(L, -2, ++index);
  }
  return 1;
}

// native.from_json(text): value
int from_json_text(lua_State* L) {
  size_t length = 0;
  const char* text = luaL_checklstring(L, 1, &length);
  push_json(L, Json::parse({text, length}, "text"));
  return 1;
}

}  // namespace

int open_bindings(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"layers", guard<layers>},
      {"common_layer_options", guard<common_options>},
      {"check_attributes", guard<check_attributes_of>},
      {"ops", guard<ops>},
      {"losses", guard<losses>},
      {"initializers", guard<initializers>},
      {"optimizers", guard<optimizers>},
      {"policies", guard<policies>},
      {"check_policy", guard<check_policy>},
      {"outer_ops", guard<outer_op_names>},
      {"sources", guard<sources>},
      {"transforms", guard<transforms>},
      {"schedules", guard<schedules>},
      {"evaluations", guard<evaluations>},
      {"job_keys", guard<job_key_names>},
      {"nearest", guard<nearest>},
      {"script", guard<script>},
      {"module_text", guard<module_text>},
      {"reference", guard<push_reference>},
      {"list", guard<list>},
      {"to_json", guard<to_json_text>},
      {"from_json", guard<from_json_text>},
      {"interrupted", guard<interrupted>},
      {nullptr, nullptr},
  };
  lua_newtable(L);
  luaL_register(L, nullptr, kFunctions);
  set_text(L, "version", PERIGEE_VERSION);
  lua_pushlightuserdata(L, nullptr);
  lua_setfield(L, -2, "null");
  lua_newtable(L);
  add_tensor_functions(L);
  add_traced_functions(L);
  add_tensor_files(L);
  lua_setfield(L, -2, "tensor");
  lua_newtable(L);
  add_run_functions(L);
  lua_setfield(L, -2, "run");
  lua_newtable(L);
  add_cluster_run_functions(L);
  lua_setfield(L, -2, "cluster_run");
  return 1;
}

}  // namespace perigee
