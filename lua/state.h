// A LuaJIT state as Perigee uses it: standard libraries, the embedded `perigee` modules, source text only, a cap on memory, and
// a hook that lets Ctrl-C end a loop. It is for the user's own scripts; it is no sandbox for other people's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <lua.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/error.h"
#include "src/data/stored_arrays.h"

namespace perigee {

struct LuaOptions {
  size_t memory_bytes = size_t{2} << 30;         // an allocation beyond it is "not enough memory"
  const std::atomic<bool>* interrupt = nullptr;  // set: the running script ends with an Error at its next few instructions
  std::string folder = ".";                      // where `require` looks first
  HeldArrays* arrays = nullptr;                  // set: holds the arrays that a script's result names, which the script's state held
  std::function<void()> wake;                    // called on a run's thread when it has events (lua/run.cpp); must not block
};

const LuaOptions& lua_options(lua_State* L);  // of the LuaState; the defaults in an interpreter that is not ours

// Lua's print, to any stream.
int lua_print(lua_State* L, std::FILE* to);

// Makes our modules known to `require`, in any interpreter.
void preload_modules(lua_State* L);

class LuaState {
 public:
  explicit LuaState(const LuaOptions& options);
  LuaState(const LuaState&) = delete;
  LuaState& operator=(const LuaState&) = delete;

  lua_State* raw() const { return state_.get(); }

  // Compiles source text and leaves the function on the stack. Bytecode is refused: it can crash the interpreter. The function
  // and those inside it run uncompiled, so that the count hook fires in every loop. `name` appears in positions.
  void load(std::string_view text, const std::string& name);
  // Calls what is on the stack. Error(model) with the script's position, Error(data) where a file that it reads is missing or damaged,
  // Error(resources) when memory is out.
  void call(int arguments, int results);

  // Where one script follows another in the same state: what is no longer needed goes, and if little memory is left, there is room to
  // say what else is not.
  void make_room();

  // The places in scripts where the last failed call was, the eight innermost, as "in3:2", "models/lenet.lua:7".
  std::vector<std::string> frames() const;

  bool interrupted() const { return options_->interrupt && options_->interrupt->load(std::memory_order_relaxed); }

 private:
  struct Closer {
    void operator()(lua_State* state) const { lua_close(state); }
  };
  struct Memory;
  struct Frames;
  static int note_frames(lua_State* L);
  [[noreturn]] void rethrow(int status);
  [[noreturn]] void refuse(int status, std::string_view source);

  std::unique_ptr<LuaOptions> options_;
  std::shared_ptr<Memory> memory_;  // outlives the state
  std::unique_ptr<Frames, void (*)(Frames*)> frames_;
  int handler_ = 0;  // note_frames, in the registry
  std::unique_ptr<lua_State, Closer> state_;
};

}  // namespace perigee
