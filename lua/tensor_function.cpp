// Recorded and compiled functions of tensors: what lua/perigee/differentiate.lua calls.
#include <vector>

#include "lua/json.h"
#include "lua/object.h"
#include "lua/tensor.h"
#include "src/core/error.h"
#include "src/eager/compiled.h"
#include "src/eager/einsum.h"

namespace perigee {
namespace {

constexpr const char* kRecorder = "perigee.recorder";
constexpr const char* kFunction = "perigee.function";

int new_recorder(lua_State* L) {
  push_object<Recorder>(L, kRecorder);
  return 1;
}

// argument(recorder, tensor): a value of the tensor's type; of a number when there is none
int argument(lua_State* L) {
  const Array* like = optional_array(L, 2);
  lua_pushinteger(L, recorder_at(L, 1).argument(like ? like->type() : Type{Dtype::f64, Shape()}, like == nullptr));
  return 1;
}

int capture(lua_State* L) {
  lua_pushinteger(L, recorder_at(L, 1).capture(check_array(L, 2)));
  return 1;
}

// record(recorder, op, attrs, { is_value, number or id, ... }, count): { values }
int record(lua_State* L) {
  Recorder& recorder = recorder_at(L, 1);
  const char* op = luaL_checkstring(L, 2);
  Json attrs = lua_isnil(L, 3) ? Json::object() : to_json(L, 3, op);
  if (attrs.is_array() && attrs.as_array().empty()) attrs = Json::object();
  std::vector<Recorder::Operand> operands(static_cast<size_t>(luaL_checkinteger(L, 5)));
  for (size_t i = 0; i < operands.size(); ++i) {
    lua_rawgeti(L, 4, static_cast<int>(2 * i + 1));
    lua_rawgeti(L, 4, static_cast<int>(2 * i + 2));
    if (!lua_isnil(L, -1) && lua_toboolean(L, -2)) operands[i].value = static_cast<int>(lua_tointeger(L, -1));
    else if (!lua_isnil(L, -1)) operands[i].number = lua_tonumber(L, -1);
    lua_pop(L, 2);
  }
  if (std::string_view(op) == "einsum") {  // several ops
    std::vector<int> values;
    for (const Recorder::Operand& operand : operands) values.push_back(operand.value.value());
    const int result = einsum(recorder, attrs.find("formula")->as_string(), values);
    push_ints(L, std::span(&result, 1));
    return 1;
  }
  push_ints(L, recorder.apply(op, operands, attrs));
  return 1;
}

// value_type(recorder, value): dtype, { sizes }
int value_type(lua_State* L) {
  const Type type = recorder_at(L, 1).type(static_cast<int>(luaL_checkinteger(L, 2)));
  lua_pushstring(L, dtype_name(type.dtype));
  lua_createtable(L, type.shape.rank(), 0);
  for (int i = 0; i < type.shape.rank(); ++i) {
    lua_pushnumber(L, static_cast<double>(type.shape[i]));
    lua_rawseti(L, -2, i + 1);
  }
  return 2;
}

int gradients_of(lua_State* L) {
  push_ints(L, recorder_at(L, 1).gradients(static_cast<int>(luaL_checkinteger(L, 2)), ints_at(L, 3)));
  return 1;
}

// compile(recorder, { values }, threads, { donated arguments, from 0 }): a function for call()
int compile(lua_State* L) {
  push_object<CompiledFunction>(L, kFunction, recorder_at(L, 1), ints_at(L, 2), static_cast<int>(luaL_optinteger(L, 3, 0)), ints_at(L, 4));
  return 1;
}

// call(function, number of arguments, argument..., result...): tensors and numbers in, fresh tensors filled
int call(lua_State* L) {
  auto& function = object_at<CompiledFunction>(L, 1, kFunction);
  const int count = static_cast<int>(luaL_checkinteger(L, 2));
  std::vector<Array> arguments;
  for (int i = 3; i < 3 + count; ++i) {
    if (lua_type(L, i) == LUA_TNUMBER) {
      arguments.push_back(new_array(Type{Dtype::f64, Shape()}));
      *arguments.back().view.as<double>() = lua_tonumber(L, i);
    } else {
      arguments.push_back(check_array(L, i));
    }
  }
  std::vector<Array> results = function.run(arguments);
  for (size_t i = 0; i < results.size(); ++i) give_array(L, 3 + count + static_cast<int>(i), std::move(results[i]));
  lua_pushboolean(L, 1);
  return 1;
}

int report_of(lua_State* L) {
  const std::string text = object_at<CompiledFunction>(L, 1, kFunction).report();
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

}  // namespace

Recorder& recorder_at(lua_State* L, int index) { return object_at<Recorder>(L, index, kRecorder); }

void add_traced_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"recorder", report<new_recorder>}, {"argument", report<argument>},
      {"capture", report<capture>},       {"record", report<record>},
      {"value_type", report<value_type>}, {"gradients", report<gradients_of>},
      {"compile", report<compile>},       {"call", report<call>},
      {"plan_report", report<report_of>}, {nullptr, nullptr},
  };
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
