#include "repl/console/session.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <utility>

#include "lua/guard.h"
#include "lua/json.h"
#include "repl/commands/describe/table.h"
#include "repl/console/lua_text.h"
#include "repl/editor/graphics.h"
#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr size_t kMaxInputs = 10000;

int print(lua_State* L) { return lua_print(L, stdout); }

// graphics(): the pictures that the terminal shows; "" for text alone.
int graphics(lua_State* L) {
  lua_pushstring(L, terminal_graphics());
  return 1;
}

// The description of an experiment that show.lua prints. Paths of its data start from its script's folder.
int describe(lua_State* L) {
  const Json job = to_json(L, 1, "experiment");
  std::string script = job.find("@") && job.find("@")->is_string() ? job.find("@")->as_string() : "";
  script.resize(std::min(script.rfind(':'), script.size()));
  const std::filesystem::path folder = file_exists(script) ? std::filesystem::path(script).parent_path() : "";
  const std::string text = job_table(Job(job, "experiment", folder.empty() ? "." : folder.string()));
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

const char* or_nothing(const char* text) { return text ? text : ""; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

int set_up(lua_State* L) {
  lua_pushcfunction(L, print);
  lua_setglobal(L, "print");
  lua_getglobal(L, "require");
  lua_pushliteral(L, "perigee");
  lua_call(L, 1, 1);
  lua_setglobal(L, "pg");
  return 0;
}

}  // namespace

LuaSession::LuaSession(LuaSessionOptions options)
    : options_(std::move(options)),
      lua_({.memory_bytes = options_.memory_bytes, .interrupt = options_.interrupt, .folder = options_.folder, .wake = options_.wake}) {
  // The loaded modules stay, and run once: collecting and compiling would only make the first prompt later.
  lua_gc(lua_.raw(), LUA_GCSTOP, 0);
  luaJIT_setmode(lua_.raw(), 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  lua_pushcfunction(lua_.raw(), set_up);
  lua_.call(0, 0);
  luaJIT_setmode(lua_.raw(), 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_ON);
  lua_gc(lua_.raw(), LUA_GCRESTART, 0);
}

bool LuaSession::is_command(std::string_view text) {
  text = trimmed(text);
  return !text.empty() && (text[0] == '?' || text[0] == '!' || (text[0] == ':' && !text.starts_with("::")));
}

size_t LuaSession::indentation(std::string_view text) const { return is_command(text) ? 0 : lua_indentation(text); }

// Runs `action`; an error is shown. Whatever it leaves on the stack goes.
template <class Action>
bool LuaSession::guarded(const Action& action) {
  bool good = false, full = false;
  try {
    action();
    good = true;
  } catch (const Error& error) {
    std::fflush(stdout);
    show_error(error);
    full = error.kind() == ErrorKind::resources;
  } catch (const std::bad_alloc&) {
    std::fflush(stdout);
    std::fputs("error: there is not enough memory\n", stderr);
    full = true;
  }
  lua_settop(lua_.raw(), 0);
  if (full) lua_.make_room();
  interrupted_ = options_.interrupt && options_.interrupt->exchange(false);
  return good;
}

bool LuaSession::run(const std::string& input) {
  if (trimmed(input).empty()) return true;
  in_lua_ = false;
  return guarded([&] {
    const std::string command = meant(std::string(trimmed(input)));
    if (is_command(command)) run_command(command);
    else run_lua(input);
  });
}

// A function of perigee.run; whether its result is true.
bool LuaSession::call_run(const char* function) {
  lua_State* L = lua_.raw();
  lua_getglobal(L, "require");
  lua_pushliteral(L, "perigee.run");
  lua_.call(1, 1);
  lua_getfield(L, -1, function);
  lua_remove(L, -2);
  lua_.call(0, 1);
  return lua_toboolean(L, -1) != 0;
}

bool LuaSession::deliver() {
  bool due = false;
  guarded([&] { due = call_run("deliver"); });
  return due;
}

void LuaSession::answer() {
  in_lua_ = false;
  guarded([&] { call_run("answer"); });
}

bool LuaSession::run_file(const std::string& path) {
  return guarded([&] { load(path); });
}

void LuaSession::run_lua(const std::string& input) {
  load_input(input);
  const size_t number = inputs_.size() - 1;
  call_and_show();
  saved_.push_back(number);
}

// Statements that end in an expression, on a line of its own or behind a semicolon, end by returning it: pasted lines, `x = 5; x`. Only a name
// begins a line that belongs to no other.
std::string LuaSession::ends_in_expression(std::string statements) {
  while (!statements.empty() && (statements.back() == '\n' || statements.back() == ' ')) statements.pop_back();
  const size_t newline = statements.rfind('\n');
  size_t cut = newline == std::string::npos ? 0 : newline + 1;
  for (const LuaToken& token : lua_tokens(statements)) {
    if (newline != std::string::npos && token.begin < newline && newline < token.end) return statements;  // in a long string or comment
    if (token.begin >= cut && token.text(statements) == ";") cut = token.end;
  }
  const bool after_semicolon = cut > 0 && statements[cut - 1] == ';';  // of a function's body, perhaps, which is not cut
  if (cut == 0 || (after_semicolon && !compile(statements.substr(0, cut)).empty())) return statements;
  const std::string_view last = std::string_view(statements).substr(cut);
  const std::vector<LuaToken> tokens = lua_tokens(last);
  if (tokens.empty() || tokens[0].kind != LuaToken::Kind::name) return statements;
  std::string returning = statements.substr(0, cut) + "return " + std::string(last);
  return compile(returning).empty() ? returning : statements;
}

// An expression becomes a function that returns its values.
void LuaSession::load_input(const std::string& input) {
  if (inputs_.size() >= kMaxInputs) {  // the numbers of later inputs begin anew
    inputs_.clear();
    saved_.clear();
  }
  inputs_.push_back(input);
  in_lua_ = true;
  const std::string name = "in" + std::to_string(inputs_.size());
  const std::string_view text = trimmed(input);
  const std::string expression = "return " + std::string(text.starts_with("=") ? text.substr(1) : std::string_view(input));
  const std::string statements = ends_in_expression(without_outer_locals(input));
  if (compile(expression).empty()) return lua_.load(expression, name);
  // An input that is wrong from its first word on was meant as an expression.
  const std::vector<LuaToken> tokens = lua_tokens(text);
  const std::string problem = compile(statements);
  const bool no_statement = !tokens.empty() && problem.ends_with("near '" + std::string(tokens[0].text(text)) + "'");
  lua_.load(no_statement || text.starts_with("=") ? expression : statements, name);
}

// Empty, or what the compiler says.
std::string LuaSession::compile(const std::string& source) {
  lua_State* L = lua_.raw();
  const bool good = luaL_loadbufferx(L, source.data(), source.size(), "=", "t") == 0;
  std::string problem = good ? "" : or_nothing(lua_tostring(L, -1));
  lua_pop(L, 1);
  return problem;
}

void LuaSession::call_and_show() {
  lua_.call(0, LUA_MULTRET);
  show_results();
}

void LuaSession::show_results() {
  lua_State* L = lua_.raw();
  const int count = lua_gettop(L);
  if (count == 0) return;
  if (!lua_isnil(L, 1)) {
    lua_pushvalue(L, 1);
    lua_setglobal(L, "_");
  }
  luaL_checkstack(L, count + 4, "too many values");
  push_prompt("show");
  lua_insert(L, 1);
  lua_pushinteger(L, options_.columns());
  lua_insert(L, 2);
  const std::string text = call_prompt(count + 1);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

// perigee.prompt's function of that name, which is loaded on first use.
void LuaSession::push_prompt(const char* function) {
  lua_State* L = lua_.raw();
  lua_getfield(L, LUA_REGISTRYINDEX, "perigee.prompt");
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_pushcfunction(L, [](lua_State* state) {
      lua_getglobal(state, "require");
      lua_pushliteral(state, "perigee.prompt");
      lua_call(state, 1, 1);
      lua_pushcfunction(state, guard<describe>);
      lua_setfield(state, -2, "describe");
      lua_pushcfunction(state, guard<graphics>);
      lua_setfield(state, -2, "graphics");
      lua_setfield(state, LUA_REGISTRYINDEX, "perigee.prompt");
      return 0;
    });
    lua_.call(0, 0);
    lua_getfield(L, LUA_REGISTRYINDEX, "perigee.prompt");
  }
  lua_getfield(L, -1, function);
  lua_remove(L, -2);
}

// Calls the function that push_prompt left below `arguments` values; its text.
std::string LuaSession::call_prompt(int arguments) {
  lua_State* L = lua_.raw();
  lua_.call(arguments, 1);
  size_t length = 0;
  const char* text = lua_tolstring(L, -1, &length);
  std::string result(text ? text : "", text ? length : 0);
  lua_pop(L, 1);
  return result;
}

// Not while the compiler misses only the rest.
bool LuaSession::finished(const std::string& text) {
  const std::string_view inner = trimmed(text);
  if (inner.empty() || is_command(text) || inner.back() == '?') return true;
  const std::string expression = "return " + std::string(inner.starts_with("=") ? inner.substr(1) : inner);
  if (compile(expression).empty()) return true;
  const std::string statements(inner), returning = ends_in_expression(statements);
  if (returning != statements && inner.find('\n') == std::string::npos) return true;  // `x = 5; x`
  // A string in quotes ends in its line.
  const std::vector<LuaToken> tokens = lua_tokens(text);
  const bool open_quote = !tokens.empty() && tokens.back().kind == LuaToken::Kind::string && !tokens.back().finished &&
                          text[tokens.back().begin] != '[' && !text.ends_with('\\');
  return open_quote || !compile(text).ends_with("near '<eof>'");
}

std::vector<Colour> LuaSession::colours(std::string_view text) const {
  return is_command(text) ? std::vector<Colour>(text.size(), Colour::special) : lua_colours(text);
}

}  // namespace perigee
