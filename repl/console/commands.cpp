// The inputs that begin with a colon, a question mark or an exclamation mark.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "repl/commands/describe/table.h"
#include "repl/console/lua_text.h"
#include "repl/console/session.h"
#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kLargestCommandsScript = uint64_t{64} << 20;
constexpr double kBenchSeconds = 0.5;
constexpr size_t kMaxSamples = 1000;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// "1.23 ms"
std::string seconds_text(double seconds) {
  constexpr const char* kUnits[] = {"s", "ms", "us", "ns"};
  size_t unit = 0;
  while (seconds < 1 && unit < 3) seconds *= 1000, ++unit;
  char text[40];
  std::snprintf(text, sizeof text, "%.3g %s", seconds, kUnits[unit]);
  return text;
}

// system(), but a Ctrl-C that comes before the shell has begun is not lost: it is passed on. The shell begins with signals as a program
// usually finds them, SIGPIPE among them, which this program ignores.
int run_in_shell(const std::string& command, const std::atomic<bool>* interrupt) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  for (const int signal : {SIGINT, SIGQUIT, SIGPIPE}) sigaddset(&usual, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const char* const arguments[] = {"sh", "-c", command.c_str(), nullptr};
  pid_t shell = 0;
  const auto quit = std::signal(SIGQUIT, SIG_IGN);  // it is for what runs in the shell
  const int failure = posix_spawn(&shell, "/bin/sh", nullptr, &attributes, const_cast<char* const*>(arguments), environ);
  posix_spawnattr_destroy(&attributes);
  int status = 0;
  if (failure == 0) {
    if (interrupt && *interrupt) kill(shell, SIGINT);
    while (waitpid(shell, &status, 0) < 0 && errno == EINTR) {}
  }
  std::signal(SIGQUIT, quit);
  if (failure != 0)
    throw Error(ErrorKind::usage,
                {"!", "the shell does not start", std::strerror(failure), "", "write a shorter line, or end other processes"});
  return status;
}

void need(const std::string& argument, const char* command, const char* what) {
  if (argument.empty()) throw Error(ErrorKind::usage, {"", std::string(command) + " needs " + what, "", "", ""});
}

}  // namespace

const LuaSession::Command LuaSession::kCommands[] = {
    {":help", "[NAME]", "this list, or what ?NAME shows", &LuaSession::commands},
    {":time", "EXPRESSION", "its value and how long it took", &LuaSession::time},
    {":bench", "EXPRESSION", "how long it takes when it is run again and again", &LuaSession::bench},
    {":mem", "", "memory of the program and of Lua", &LuaSession::memory},
    {":load", "FILE", "runs a Lua script here", &LuaSession::load},
    {":save", "FILE", "writes what was typed in this session as a Lua script", &LuaSession::save},
    {":quit", "", "leaves, as Ctrl-D does", &LuaSession::quit},
};

std::vector<Candidate> LuaSession::command_names(std::string_view prefix) {
  std::vector<Candidate> names;
  for (const Command& command : kCommands)
    if (std::string_view(command.name).starts_with(prefix)) names.push_back({command.name, command.doc});
  return names;
}

// Translates commands of other prompts, unless the input is a name: `exit`, `quit()`, `help`, `x?`. Returns the command that it
// means.
std::string LuaSession::meant(const std::string& input) {
  if (input.size() > 1 && input.back() == '?' && input.find_first_of(" \t\n\"'(") == std::string::npos)
    return "?" + input.substr(0, input.size() - 1);
  const std::string name = input.substr(0, input.find("()"));
  const bool whole = name == input || name + "()" == input;
  if (!whole || (name != "exit" && name != "quit" && name != "help")) return input;
  lua_State* L = lua_.raw();
  lua_pushlstring(L, name.data(), name.size());
  lua_rawget(L, LUA_GLOBALSINDEX);
  const bool known = !lua_isnil(L, -1);
  lua_pop(L, 1);
  return known ? input : name == "help" ? ":help" : ":quit";
}

void LuaSession::run_command(const std::string& input) {
  const size_t first = input[0] == ':' ? std::min(input.find(' '), input.size()) : 1;
  const size_t begin = std::min(input.find_first_not_of(' ', first), input.size());
  const std::string name = input.substr(0, first), argument = input.substr(begin);
  if (name == "?") return help(argument);
  if (name == "!") return shell(argument);
  std::vector<std::string> known;
  for (const Command& command : kCommands) {
    if (name == command.name) return (this->*command.run)(argument);
    known.emplace_back(command.name);
  }
  const std::string hint = nearest_hint(name, known);
  throw Error(ErrorKind::usage, {"", "there is no command " + name, "", "", hint.empty() ? ":help lists them" : hint});
}

void LuaSession::help(const std::string& name) {
  push_prompt("help");
  lua_pushlstring(lua_.raw(), name.data(), name.size());
  lua_pushinteger(lua_.raw(), options_.columns());
  const std::string text = call_prompt(2);
  std::fputs(text.c_str(), stdout);
}

void LuaSession::commands(const std::string& name) {
  if (!name.empty()) return help(name);
  std::fputs(
      "expression          its value, which is also in _\n"
      "?NAME, NAME?        help, as in ?pg.data.csv; ? alone: an overview\n"
      "!COMMAND            runs it in the shell\n",
      stdout);
  for (const Command& command : kCommands) {
    const std::string usage = std::string(command.name) + " " + command.argument;
    std::printf("%-20s%s\n", usage.c_str(), command.doc);
  }
  std::fputs(
      "\nTab completes names, options, files and paths of a job. Enter runs what is\n"
      "whole, Alt-Enter begins another line. Up and Down go through lines and then\n"
      "through what was typed before, Ctrl-R searches it. Ctrl-C clears the line or\n"
      "ends what is running, Ctrl-D leaves.\n",
      stdout);
}

void LuaSession::shell(const std::string& command) {
  need(command, "!", "a command for the shell: !ls");
  std::fflush(stdout);
  const int status = run_in_shell(command, options_.interrupt);
  if (status != 0) std::fprintf(stderr, "exit status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void LuaSession::time(const std::string& expression) {
  need(expression, ":time", "an expression");
  load_input(expression);
  const auto begin = Clock::now();
  lua_.call(0, LUA_MULTRET);
  const double seconds = seconds_since(begin);
  show_results();
  std::printf("%s\n", seconds_text(seconds).c_str());
}

// In samples of at least a millisecond, so that the clock does not matter.
void LuaSession::bench(const std::string& expression) {
  need(expression, ":bench", "an expression");
  load_input(expression);
  lua_State* L = lua_.raw();
  lua_.load("local f, n = ... for _ = 1, n do f() end", "bench");
  lua_insert(L, 1);
  const auto sample = [&](int times) {
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_pushinteger(L, times);
    const auto begin = Clock::now();
    lua_.call(2, 0);
    return seconds_since(begin);
  };
  int times = 1;
  while (sample(times) < 1e-3 && times < 1 << 24) times *= 2;
  std::vector<double> samples;
  for (const auto begin = Clock::now(); samples.empty() || (seconds_since(begin) < kBenchSeconds && samples.size() < kMaxSamples);)
    samples.push_back(sample(times) / times);
  std::sort(samples.begin(), samples.end());
  std::printf("%s, from %s to %s: median of %zu samples of %d\n", seconds_text(samples[samples.size() / 2]).c_str(),
              seconds_text(samples.front()).c_str(), seconds_text(samples.back()).c_str(), samples.size(), times);
}

void LuaSession::memory(const std::string&) {
  const double lua_bytes = 1024.0 * lua_gc(lua_.raw(), LUA_GCCOUNT, 0) + lua_gc(lua_.raw(), LUA_GCCOUNTB, 0);
  long pages = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("Lua %s, the program %s, at most %s so far\n", bytes_text(lua_bytes).c_str(),
              bytes_text(static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE))).c_str(),
              bytes_text(1024.0 * static_cast<double>(usage.ru_maxrss)).c_str());
}

// Expressions are no statements of a script: their values go to _, as they did here.
void LuaSession::save(const std::string& file) {
  need(file, ":save", "a file: :save session.lua");
  std::string script = "local pg = require \"perigee\"\n";
  for (const size_t number : saved_) {
    const std::string& input = inputs_[number];
    const bool statement = compile(input).empty();
    const size_t begin = input.find_first_not_of(" =");
    script += statement ? input : "_ = " + (begin == std::string::npos ? input : input.substr(begin));
    script += "\n";
  }
  write_file(file, as_bytes(script));
  std::printf("%zu inputs in %s\n", saved_.size(), file.c_str());
}

void LuaSession::load(const std::string& file) {
  need(file, ":load", "a file: :load models/lenet.lua");
  std::error_code status;
  if (!std::filesystem::is_regular_file(file, status)) {
    size_t from = 0;
    std::vector<std::string> names;
    const size_t slash = file.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : file.substr(0, slash + 1);
    for (const Candidate& candidate : file_names(folder, &from)) names.push_back(folder + candidate.text);
    throw Error(ErrorKind::usage, {file, "there is no such file", "", "", nearest_hint(file, names)});
  }
  const Bytes text = read_file(file, kLargestCommandsScript);
  lua_.load(as_text(text), file);
  call_and_show();
}

void LuaSession::quit(const std::string&) { quitting_ = true; }

}  // namespace perigee
