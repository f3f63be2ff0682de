#include "lua/bindings.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "cluster/policy/families.h"
#include "cluster/policy/policy.h"
#include "lua/guard.h"
#include "lua/json.h"
#include "lua/modules.h"
#include "lua/reference.h"
#include "lua/run.h"
#include "lua/state.h"
#include "lua/tensor.h"
#include "lua/text/generate.h"
#include "src/core/elsewhere.h"
#include "src/core/error.h"
#include "src/data/transform.h"
#include "src/graph/op.h"
#include "src/job/job_schema.h"
#include "src/model/metrics/text_scores.h"
#include "src/nn/layer.h"
#include "src/schema/families.h"

namespace perigee {
namespace {

void set_bindings_text(lua_State* L, const char* key, const char* text) {
  if (!text) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

void push_strings(lua_State* L, const std::vector<std::string>& strings) {
  lua_newtable(L);
  int index = 0;
  for (const std::string& text : strings) {
    lua_pushlstring(L, text.data(), text.size());
    lua_rawseti(L, -2, ++index);
  }
}

std::vector<std::string> scheduled_options(const Schema& schema) {
  std::vector<std::string> names;
  for (const Option* option : schema.all())
    if (option->type->family != nullptr && option->type->family == std::string_view("schedule")) names.emplace_back(option->name);
  return names;
}

// native.family(name): {{name=, doc=, options={names}, positional={names}, open=}, ...}; of layers also their stems, the options that may
// be schedules and no common options, of sources whether they are a training and a test part
int family_members(lua_State* L) {
  const std::string wanted = luaL_checkstring(L, 1);
  lua_newtable(L);
  int index = 0;
  // Policies are traces, which take time to read.
  for (const Family& family : wanted == "policy" ? all_families() : families()) {
    if (wanted != family.name) continue;
    for (const FamilyMember& member : family.members) {
      const Schema own{.options = member.schema.options};
      lua_newtable(L);
      set_bindings_text(L, "name", member.name);
      set_bindings_text(L, "doc", member.doc);
      push_strings(L, wanted == "layer" ? own.names() : member.schema.names());
      lua_setfield(L, -2, "options");
      push_strings(L, {member.schema.positional.begin(), member.schema.positional.end()});
      lua_setfield(L, -2, "positional");
      lua_pushboolean(L, member.schema.open);
      lua_setfield(L, -2, "open");
      if (wanted == "source") {
        lua_pushboolean(L, source_named(member.name).two_parts);
        lua_setfield(L, -2, "two_parts");
      }
      if (wanted == "layer") {
        const LayerDef& def = layer_named(member.name);
        set_bindings_text(L, "stem", def.stem ? def.stem : def.name);
        push_strings(L, scheduled_options(own));
        lua_setfield(L, -2, "scheduled");
      }
      lua_rawseti(L, -2, ++index);
    }
  }
  return 1;
}

// native.common_layer_options(): names that every layer accepts
int common_options(lua_State* L) {
  push_strings(L, common_layer_schema.names());
  return 1;
}

// native.ops(): {{name=, doc=, min=, max=}, ...} of the ops that programs may name; max -1: any number of operands
int ops(lua_State* L) {
  lua_newtable(L);
  int index = 0;
  for (const OpDef* def : all_ops()) {
    if (def->internal || def->max_inputs == 0) continue;
    lua_newtable(L);
    set_bindings_text(L, "name", def->name);
    set_bindings_text(L, "doc", def->doc);
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

// native.nearest(name, {known, ...}): "did you mean 'x'?", how a thing that other libraries call so is said here, or ""
int nearest(lua_State* L) {
  const std::string name = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  std::vector<std::string> known;
  for (int i = 1; i <= static_cast<int>(lua_objlen(L, 2)); ++i) {
    lua_rawgeti(L, 2, i);
    if (const char* text = lua_tostring(L, -1)) known.emplace_back(text);
    lua_pop(L, 1);
  }
  std::sort(known.begin(), known.end());  // pairs() gives them in another order in every process
  std::string hint = advice_elsewhere(name, known);
  if (hint.empty()) hint = nearest_hint(name, known);
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
  const std::string text = module->text();
  lua_pushlstring(L, text.data(), text.size());
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

// Milliseconds of a clock that only goes forwards.
int milliseconds(lua_State* L) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  lua_pushnumber(L, std::chrono::duration<double, std::milli>(now).count());
  return 1;
}

const Schema* job_section(const std::string& name) {
  if (name.empty()) return &job_schema;
  const Option* option = job_schema.find(name);
  return option ? option->inside : nullptr;
}

// native.job_keys(section): the options of the top level ("") of a job or of one of its sections, each with its example; empty for anything else
int job_key_names(lua_State* L) {
  const std::string name = luaL_checkstring(L, 1);
  const Schema* section = job_section(name);
  const std::vector<const Option*> options = section ? section->all() : std::vector<const Option*>();
  push_options(L, options);
  for (size_t i = 0; i < options.size(); ++i) {
    lua_rawgeti(L, -1, static_cast<int>(i + 1));
    set_bindings_text(L, "example", job_example(name, options[i]->name));
    lua_pop(L, 1);
  }
  return 1;
}

// native.check_job_key(section, key, value): nothing, or why it cannot stand there
int check_job_key(lua_State* L) {
  const std::string name = luaL_checkstring(L, 1), key = luaL_checkstring(L, 2);
  const Schema* section = job_section(name);
  if (section == nullptr) return 0;
  try {
    const Option* option = section->find(key);
    if (has_no_effect(name, key)) throw Error(ErrorKind::model, {.what = "'" + key + "' has no effect", .hint = "remove it"});
    if (option == nullptr) throw unknown_key(key, Json::object(), *section, "", ErrorKind::model);
    if (lua_istable(L, 3)) {  // what is inside is checked where it stands
      check_option(lua_objlen(L, 3) > 0 ? Json::array() : Json::object(), *option, "");
      return 0;
    }
    check_option(to_json(L, 3, key), *option, "");
    return 0;
  } catch (const Error& error) {
    lua_pushstring(L, with_example(error, name).what());
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

// native.text_scores({ predicted }, { wanted }, tokenize): the figures of TextScores
int text_scores(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE), luaL_checktype(L, 2, LUA_TTABLE);
  TextScores scores;
  const auto text = [&](int table, size_t place) {
    lua_rawgeti(L, table, static_cast<int>(place));
    size_t length = 0;
    const char* const bytes = lua_tolstring(L, -1, &length);
    return std::string_view(bytes != nullptr ? bytes : "", bytes != nullptr ? length : 0);
  };
  for (size_t i = 1; i <= lua_objlen(L, 2); ++i) {
    const std::string_view predicted = text(1, i), wanted = text(2, i);
    scores.add(predicted, wanted, lua_toboolean(L, 3) != 0);
    lua_pop(L, 2);
  }
  push_json(L, scores.figures());
  return 1;
}

}  // namespace

int open_bindings(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"family", guard<family_members>},
      {"common_layer_options", guard<common_options>},
      {"check_attributes", guard<check_attributes_of>},
      {"ops", guard<ops>},
      {"check_policy", guard<check_policy>},
      {"outer_ops", guard<outer_op_names>},
      {"job_keys", guard<job_key_names>},
      {"check_job_key", guard<check_job_key>},
      {"nearest", guard<nearest>},
      {"script", guard<script>},
      {"module_text", guard<module_text>},
      {"reference", guard<push_reference>},
      {"list", guard<list>},
      {"to_json", guard<to_json_text>},
      {"from_json", guard<from_json_text>},
      {"interrupted", guard<interrupted>},
      {"milliseconds", guard<milliseconds>},
      {"text_scores", guard<text_scores>},
      {nullptr, nullptr},
  };
  lua_newtable(L);
  luaL_register(L, nullptr, kFunctions);
  add_generate_functions(L);
  set_bindings_text(L, "version", PERIGEE_VERSION);
  lua_pushlightuserdata(L, nullptr);
  lua_setfield(L, -2, "null");
  lua_newtable(L);
  add_tensor_functions(L);
  add_traced_functions(L);
  add_tensor_files(L);
  add_network_functions(L);
  add_source_functions(L);
  add_optimizer_functions(L);
  add_tokenizer_functions(L);
  add_vector_functions(L);
  add_layout_functions(L);
  lua_setfield(L, -2, "tensor");
  lua_newtable(L);
  add_held_arrays(L);
  lua_setfield(L, -2, "arrays");
  lua_newtable(L);
  add_run_functions(L);
  lua_setfield(L, -2, "run");
  return 1;
}

}  // namespace perigee
