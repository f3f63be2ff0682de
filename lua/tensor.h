// Tensors in Lua: `perigee.native.tensor`. A tensor there is a C++ Array inside an FFI struct (lua/perigee/tensor.lua declares it), made and
// destroyed by these functions. What runs often is called through a table of C functions, the rest are Lua C functions.
#pragma once

#include <cstdint>
#include <exception>
#include <lua.hpp>
#include <string>

#include "lua/bindings.h"
#include "src/core/advice.h"
#include "src/core/error.h"
#include "src/data/source.h"
#include "src/eager/array.h"
#include "src/eager/recorder.h"

namespace perigee {

// Wraps a Lua C function so that a C++ exception becomes `nil, message`: the Lua side adds the script's line.
template <int (*Function)(lua_State*)>
int report(lua_State* L) {
  std::string text;
  bool of_data = false;
  try {
    return Function(L);
  } catch (const Error& error) {
    text = advice_for(Voice::script, error.what());
    of_data = error.kind() == ErrorKind::data;
  } catch (const std::exception& error) {
    text = error.what();
  }
  lua_settop(L, 0);
  lua_pushnil(L);
  lua_pushlstring(L, text.data(), text.size());
  if (of_data) {
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, kDataError);
  }
  return 2;
}

// Arguments; the Lua side has checked that they are tensors. Error(usage) when they are not there.
Array& check_array(lua_State* L, int index);
Array* optional_array(lua_State* L, int index);  // null for nil
// Puts `result` into the fresh tensor at `index`.
void give_array(lua_State* L, int index, Array result);

inline constexpr const char* kNetworkObject = "perigee.network";  // what objects of networks are called (lua/object.h)

void push_source(lua_State* L, SourcePtr source);  // as what source_about() and source_read() take

Recorder& recorder_at(lua_State* L, int index);  // of a function that is being recorded

// Adds what each file offers to the table on the top of the stack.
void add_tensor_functions(lua_State* L);     // tensor.cpp
void add_tensor_files(lua_State* L);         // tensor_files.cpp
void add_traced_functions(lua_State* L);     // tensor_function.cpp
void add_held_arrays(lua_State* L);          // held_arrays.cpp
void add_network_functions(lua_State* L);    // network.cpp
void add_source_functions(lua_State* L);     // source.cpp
void add_optimizer_functions(lua_State* L);  // optimizer.cpp
void add_tokenizer_functions(lua_State* L);  // text/tokenizer.cpp
void add_vector_functions(lua_State* L);     // text/vectors.cpp
void add_layout_functions(lua_State* L);     // text/layouts.cpp

}  // namespace perigee
