#include "lua/state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lua/bindings.h"
#include "lua/modules.h"
#include "lua/text/syntax_hint.h"
#include "src/core/small_blocks.h"

namespace perigee {
namespace {

constexpr int kInstructionsBetweenChecks = 10000;
constexpr size_t kReserve = size_t{1} << 20;  // kept from scripts: outside of a protected call Lua ends the process when memory is out
constexpr size_t kRoom = size_t{32} << 20;    // see make_room
constexpr char kOptionsKey = 0;               // its address is the registry key

void check_interrupt(lua_State* L, lua_Debug*) {
  const LuaOptions& options = lua_options(L);
  if (!options.interrupt || !options.interrupt->load(std::memory_order_relaxed)) return;
  // From now on every instruction asks, so that a pcall in the script's loop cannot swallow the interruption.
  lua_sethook(L, check_interrupt, LUA_MASKCOUNT, 1);
  luaL_error(L, "interrupted");
}

int open_module(lua_State* L) {
  const char* name = lua_tostring(L, lua_upvalueindex(1));
  const LuaModule* module = find_lua_module(name);
  const std::string chunk = "=" + std::string(module->name);  // "=": no file of the user's, see where.lua
  int status = 0;
  {
    const std::string text = module->text();
    status = luaL_loadbufferx(L, text.data(), text.size(), chunk.c_str(), "t");
  }
  if (status != 0) return lua_error(L);
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
  return 1;
}

// Standard output belongs to the program's own lines (--log json): a script's print goes to standard error.
int print_to_stderr(lua_State* L) { return lua_print(L, stderr); }

int set_up(lua_State* L) {
  const auto* options = static_cast<const LuaOptions*>(lua_touserdata(L, 1));
  lua_pushlightuserdata(L, const_cast<char*>(&kOptionsKey));
  lua_pushvalue(L, 1);
  lua_rawset(L, LUA_REGISTRYINDEX);
  luaL_openlibs(L);

  lua_getglobal(L, "package");
  lua_pushstring(L, (options->folder + "/?.lua;" + options->folder + "/?/init.lua").c_str());
  lua_setfield(L, -2, "path");
  lua_pop(L, 1);
  preload_modules(L);

  lua_pushcfunction(L, print_to_stderr);
  lua_setglobal(L, "print");
  lua_getglobal(L, "require");
  lua_pushstring(L, "perigee.loaders");
  lua_call(L, 1, 0);
  return 0;
}

int collect(lua_State* L) {
  lua_gc(L, LUA_GCCOLLECT, 0);
  return 0;
}

// As tostring() has it; a table that has no text of its own shows what it holds, as at the prompt.
void push_text(lua_State* L, int index) {
  constexpr int kColumns = 100;
  const bool plain = lua_istable(L, index) && luaL_getmetafield(L, index, "__tostring") == 0;
  lua_getglobal(L, plain ? "require" : "tostring");
  if (plain) {
    lua_pushliteral(L, "perigee.show");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "value");
  }
  lua_pushvalue(L, index);
  if (plain) lua_pushinteger(L, kColumns);
  lua_call(L, plain ? 2 : 1, 1);
}

}  // namespace

int lua_print(lua_State* L, std::FILE* to) {
  const int count = lua_gettop(L);
  for (int i = 1; i <= count; ++i) {
    push_text(L, i);
    size_t length = 0;
    const char* text = lua_tolstring(L, -1, &length);
    if (!text) return luaL_error(L, "'tostring' must return a string to 'print'");
    if (i > 1) std::fputc('\t', to);
    std::fwrite(text, 1, length, to);
    lua_settop(L, count);
  }
  std::fputc('\n', to);
  return 0;
}

const LuaOptions& lua_options(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kOptionsKey));
  lua_rawget(L, LUA_REGISTRYINDEX);
  const auto* options = static_cast<const LuaOptions*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  static const LuaOptions none;
  return options ? *options : none;
}

void preload_modules(lua_State* L) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  for (const LuaModule& module : lua_modules()) {
    lua_pushstring(L, module.name);
    lua_pushcclosure(L, open_module, 1);
    lua_setfield(L, -2, module.name);
  }
  lua_pushcfunction(L, open_bindings);
  lua_setfield(L, -2, "perigee.native");
  lua_pop(L, 2);
}

struct LuaState::Memory {
  Memory(size_t in_use, size_t at_most) : used(in_use), limit(at_most) {}
  ~Memory() { small.close(); }
  size_t used, limit;
  SmallBlocks<16, 32> small{};  // tensors are objects of 176 bytes, made and dropped by the million

  void* resize(void* block, size_t old_size, size_t new_size) {
    using Small = SmallBlocks<16, 32>;
    if (!block) return small.take(new_size);
    if (Small::rounded(old_size) == Small::rounded(new_size)) return block;
    void* const result = small.take(new_size);
    if (!result) return nullptr;
    std::memcpy(result, block, std::min(old_size, new_size));
    small.give(block, old_size);
    return result;
  }

  static void* allocate(void* self, void* block, size_t old_size, size_t new_size) {
    auto* memory = static_cast<Memory*>(self);
    if (new_size == 0) {
      if (!block) return nullptr;
      memory->used -= old_size;
      memory->small.give(block, old_size);
      return nullptr;
    }
    const size_t before = block ? old_size : 0;
    if (new_size > before && memory->used + (new_size - before) > memory->limit) return nullptr;
    // Large ones may grow where they are.
    constexpr size_t kSmall = 512;
    void* result = before > kSmall && new_size > kSmall ? std::realloc(block, new_size) : memory->resize(block, before, new_size);
    if (result) memory->used += new_size - before;
    return result;
  }
};

// The innermost ones. Filled while an error is on its way, when nothing can be allocated.
struct LuaState::Frames {
  static constexpr int kMost = 8, kDeepest = 200;
  struct Frame {
    char source[240];
    int line;
  } frames[kMost];
  int count = 0;

  void add(const lua_Debug& info) {
    Frame& frame = frames[count++];
    std::snprintf(frame.source, sizeof frame.source, "%s", info.source + 1);
    frame.line = info.currentline;
  }
};

// Handles the error of a protected call, where the frames are still there. An error that is no text becomes what its __tostring says.
int LuaState::note_frames(lua_State* L) {
  auto* frames = static_cast<Frames*>(lua_touserdata(L, lua_upvalueindex(1)));
  frames->count = 0;
  lua_Debug info;
  for (int level = 1; level < Frames::kDeepest && frames->count < Frames::kMost && lua_getstack(L, level, &info); ++level)
    if (lua_getinfo(L, "Sl", &info) && info.source[0] == '@' && info.currentline > 0) frames->add(info);
  if (!lua_isstring(L, 1) && luaL_callmeta(L, 1, "__tostring") && !lua_isstring(L, -1)) lua_pop(L, 1);
  return 1;
}

std::vector<std::string> LuaState::frames() const {
  std::vector<std::string> places;
  for (int i = 0; i < frames_->count; ++i) places.push_back(frames_->frames[i].source + (":" + std::to_string(frames_->frames[i].line)));
  return places;
}

LuaState::LuaState(const LuaOptions& options)
    : options_(std::make_unique<LuaOptions>(options)),
      memory_(std::make_unique<Memory>(Memory{0, options.memory_bytes}).release()),
      frames_(std::make_unique<Frames>().release(), [](Frames* frames) { std::default_delete<Frames>()(frames); }) {
  state_.reset(lua_newstate(Memory::allocate, memory_.get()));
  if (!state_)
    throw Error(ErrorKind::resources,
                {"script", "there is no memory for a Lua interpreter", "", "", "give scripts more memory, or end other processes"});
  lua_pushcfunction(raw(), set_up);
  lua_pushlightuserdata(raw(), options_.get());
  if (const int status = lua_pcall(raw(), 1, 0, 0)) rethrow(status);
  lua_pushlightuserdata(raw(), frames_.get());
  lua_pushcclosure(raw(), note_frames, 1);
  handler_ = luaL_ref(raw(), LUA_REGISTRYINDEX);
}

void LuaState::load(std::string_view text, const std::string& name) {
  if (!text.empty() && text[0] == LUA_SIGNATURE[0])
    throw Error(ErrorKind::model, {name, "this is compiled Lua bytecode, which is refused because it can crash the interpreter", "",
                                   "source text", "give the script that it was compiled from"});
  std::string source(text);
  if (source.starts_with("\xEF\xBB\xBF")) source.erase(0, 3);
  if (source.starts_with("#")) source.insert(0, "--");  // "#!/usr/bin/env perigee"
  if (const int status = luaL_loadbufferx(raw(), source.data(), source.size(), ("@" + name).c_str(), "t")) refuse(status, source);
  // Kept for where.lua, which looks up the line of `return pg.experiment { ... }`: a tail call leaves no frame to ask.
  lua_pushlstring(raw(), name.data(), name.size());
  lua_setfield(raw(), LUA_REGISTRYINDEX, kScriptName);
  lua_pushlstring(raw(), source.data(), source.size());
  lua_setfield(raw(), LUA_REGISTRYINDEX, kScriptText);
  luaJIT_setmode(raw(), -1, LUAJIT_MODE_ALLFUNC | LUAJIT_MODE_OFF);
}

// A text that is no Lua.
void LuaState::refuse(int status, std::string_view source) {
  try {
    rethrow(status);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    const size_t colon = parts.where.rfind(':');
    long lines = colon == std::string::npos ? 0 : std::strtol(parts.where.c_str() + colon + 1, nullptr, 10);
    for (; lines > 1 && source.find('\n') != source.npos; --lines) source.remove_prefix(source.find('\n') + 1);
    if (parts.hint.empty()) parts.hint = syntax_hint(source.substr(0, source.find('\n')), parts.what);
    throw Error(error.kind(), std::move(parts));
  }
}

void LuaState::call(int arguments, int results) {
  lua_sethook(raw(), check_interrupt, LUA_MASKCOUNT, kInstructionsBetweenChecks);
  const size_t reserve = std::min(kReserve, memory_->limit / 4);
  memory_->limit -= reserve;
  frames_->count = 0;
  const int function = lua_gettop(raw()) - arguments;
  lua_rawgeti(raw(), LUA_REGISTRYINDEX, handler_);
  lua_insert(raw(), function);
  const int status = lua_pcall(raw(), arguments, results, function);
  memory_->limit += reserve;
  lua_sethook(raw(), nullptr, 0, 0);
  if (status) rethrow(status);
  lua_remove(raw(), function);
}

void LuaState::make_room() {
  memory_->limit = std::max(options_->memory_bytes, memory_->used + kRoom);
  lua_pushcfunction(raw(), collect);
  if (lua_pcall(raw(), 0, 0, 0) != 0) lua_pop(raw(), 1);  // a __gc of the user's
  memory_->limit = std::max(options_->memory_bytes, memory_->used + kRoom);
}

// "models/lenet.lua:7: what" becomes an Error that knows its parts.
void LuaState::rethrow(int status) {
  const char* message = lua_tostring(raw(), -1);
  std::string text = message ? message : std::string("an error that is a ") + luaL_typename(raw(), -1) + " value and no text";
  lua_getfield(raw(), LUA_REGISTRYINDEX, kDataError);
  const bool of_data = lua_isstring(raw(), -1) && text.ends_with(lua_tostring(raw(), -1));
  lua_settop(raw(), 0);
  if (status == LUA_ERRMEM)
    throw Error(ErrorKind::resources,
                {"", "the script needs too much memory", "", "at most " + std::to_string(memory_->limit >> 20) + " MiB",
                 "keep large arrays in files (pg.data.npy, pg.data.csv)"});
  std::string where;
  for (size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1)) {
    size_t end = colon + 1;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end > colon + 1 && text.compare(end, 2, ": ") == 0) {
      where = text.substr(0, end);
      text.erase(0, end + 2);
      break;
    }
  }
  if (where.empty()) {  // "stack overflow" has no position
    lua_getfield(raw(), LUA_REGISTRYINDEX, kScriptName);
    if (lua_isstring(raw(), -1)) where = lua_tostring(raw(), -1);
    lua_pop(raw(), 1);
  }
  const bool without_module = text.find("global 'pg' (a nil value)") != std::string::npos;
  std::string hint = without_module ? "begin the script with: local pg = require \"perigee\"" : foreign_name_hint(text);
  throw Error(of_data ? ErrorKind::data : ErrorKind::model, {where, std::move(text), "", "", std::move(hint)});
}

}  // namespace perigee
