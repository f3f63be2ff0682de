// LuaSession: what could stand at the cursor.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "repl/console/job_child.h"
#include "repl/console/lua_text.h"
#include "repl/console/session.h"
#include "src/core/error.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNames = 2000;

const char* kind_name(const LuaContext& context) { return context.kind == LuaContext::Kind::option ? "option" : "name"; }

void push_list(lua_State* L, const std::vector<std::string>& list) {
  lua_createtable(L, static_cast<int>(list.size()), 0);
  for (size_t i = 0; i < list.size(); ++i) {
    lua_pushlstring(L, list[i].data(), list[i].size());
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
}

}  // namespace

std::vector<Candidate> file_names(std::string_view typed, size_t* from) {
  const size_t slash = typed.rfind('/');
  const std::string_view prefix = slash == std::string_view::npos ? typed : typed.substr(slash + 1);
  std::string folder = slash == std::string_view::npos ? "." : std::string(typed.substr(0, slash + 1));
  if (const char* home = std::getenv("HOME"); home && folder.starts_with("~/")) folder = home + folder.substr(1);
  *from += typed.size() - prefix.size();
  std::vector<Candidate> names;
  std::error_code status;
  for (fs::directory_iterator it(folder, status), end; !status && it != end && names.size() < kMostNames; it.increment(status)) {
    std::string name = it->path().filename().string();
    if (!name.starts_with(prefix) || (prefix.empty() && name[0] == '.')) continue;
    std::error_code ignored;
    if (it->is_directory(ignored)) name += '/';
    names.push_back({std::move(name), ""});
  }
  std::sort(names.begin(), names.end(), [](const Candidate& a, const Candidate& b) { return a.text < b.text; });
  return names;
}

// Reads the list on the stack: { text, note, text, note, ... }.
std::vector<Candidate> LuaSession::take_candidates() {
  lua_State* L = lua_.raw();
  std::vector<Candidate> found;
  for (int i = 1; i <= static_cast<int>(std::min(lua_objlen(L, -1), kMostNames)); ++i) {
    lua_rawgeti(L, -1, i);
    const char* text = lua_tostring(L, -1);
    if (i % 2 == 1) found.push_back({text ? text : "", ""});
    else found.back().note = text ? text : "";
    lua_pop(L, 1);
  }
  lua_settop(L, 0);
  return found;
}

// Paths of a job that stand in { set = "..." }. A script is evaluated again when it was changed.
std::vector<Candidate> LuaSession::settings(const LuaContext& context, std::string_view typed) {
  lua_State* L = lua_.raw();
  std::string text, job = completed_job_;
  if (!context.script.empty()) {
    std::error_code status;
    const auto written = fs::last_write_time(context.script, status);
    if (status || !options_.scripts) return {};
    job = context.script + " " + std::to_string(written.time_since_epoch().count());
    if (job != completed_job_ && (text = job_of_script(context.script)).empty()) text = "{}";
  }
  push_prompt("paths");
  if (text.empty()) lua_pushnil(L);
  else lua_pushlstring(L, text.data(), text.size());
  push_list(L, context.path);
  lua_pushlstring(L, typed.data(), typed.size());
  lua_.call(3, 1);
  completed_job_ = job;
  return take_candidates();
}

std::vector<Candidate> LuaSession::names(const char* kind, const std::vector<std::string>& path, std::string_view prefix, bool method,
                                         const std::vector<std::string>& used) {
  lua_State* L = lua_.raw();
  push_prompt("complete");
  lua_pushstring(L, kind);
  push_list(L, path);
  lua_pushlstring(L, prefix.data(), prefix.size());
  lua_pushboolean(L, method);
  push_list(L, used);
  lua_.call(5, 1);
  return take_candidates();
}

Completion LuaSession::complete_command(const std::string& text, size_t cursor) {
  const size_t mark = text.find_first_not_of(" \n\t");
  Completion result{.from = mark};
  if (cursor <= mark) return {cursor, {}};
  const std::string_view typed = std::string_view(text).substr(mark, cursor - mark);
  const size_t blank = typed.find_last_of(' ');
  if (typed[0] == '?') {
    const LuaContext context = lua_context(typed.substr(1), typed.size() - 1);
    result.from = mark + 1 + context.from;
    result.candidates = names("help", context.path, typed.substr(1 + context.from), context.method, {});
  } else if (typed[0] == ':' && blank == std::string_view::npos) {
    result.candidates = command_names(typed);
  } else if (typed.starts_with(":time ") || typed.starts_with(":bench ")) {
    return complete_lua(text, mark + typed.find(' ') + 1, cursor);
  } else {
    result.from = mark + (blank == std::string_view::npos ? 1 : blank + 1);
    result.candidates = file_names(std::string_view(text).substr(result.from, cursor - result.from), &result.from);
  }
  return result;
}

// The Lua source between `begin` and the cursor.
Completion LuaSession::complete_lua(const std::string& text, size_t begin, size_t cursor) {
  const std::string_view source = std::string_view(text).substr(begin, cursor - begin);
  const LuaContext context = lua_context(source, source.size());
  Completion result{.from = begin + context.from};
  const std::string_view typed = source.substr(context.from);
  if (context.kind == LuaContext::Kind::file) result.candidates = file_names(typed, &result.from);
  else if (context.kind == LuaContext::Kind::setting) {
    result.candidates = settings(context, typed);
    result.from += typed.rfind('.') + 1;  // nothing where there is none
  } else if (context.kind != LuaContext::Kind::none)
    result.candidates = names(kind_name(context), context.path, typed, context.method, context.used);
  return result;
}

Completion LuaSession::complete(const std::string& text, size_t cursor) {
  try {
    return is_command(text) ? complete_command(text, cursor) : complete_lua(text, 0, cursor);
  } catch (const Error&) {  // the interpreter has no memory left
    return {cursor, {}};
  }
}

}  // namespace perigee
