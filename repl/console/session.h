// Runs the inputs of the prompt: Lua, `:commands`, `?help`, `!shell`. Answers go to standard output, errors to standard error.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lua/state.h"
#include "repl/editor/editor.h"

namespace perigee {

struct LuaContext;

struct LuaSessionOptions {
  std::string folder = ".";                // where `require` looks first
  std::atomic<bool>* interrupt = nullptr;  // set by Ctrl-C; taken back here
  bool colour = false;
  std::function<int()> columns = [] { return 80; };  // for what is printed
  bool scripts = false;                              // completion may evaluate scripts, in processes of their own
  size_t memory_bytes = LuaOptions().memory_bytes;   // of Lua
  std::function<void()> wake;                        // called on a run's thread when deliver() has something to do; must not block
};

class LuaSession : public Language {
 public:
  explicit LuaSession(LuaSessionOptions options);

  // False after an error, which was shown.
  bool run(const std::string& input);
  bool run_file(const std::string& path);
  bool quitting() const { return quitting_; }        // `:quit`
  bool interrupted() const { return interrupted_; }  // Ctrl-C ended the last input

  // Adds the new events of pg.start's runs to their curves. True: functions of run:on are due, which answer() calls
  // and which may print.
  bool deliver();
  void answer();

  bool finished(const std::string& text) override;
  Completion complete(const std::string& text, size_t cursor) override;
  std::vector<Colour> colours(std::string_view text) const override;
  size_t indentation(std::string_view text) const override;

 private:
  struct Command {
    const char *name, *argument, *doc;
    void (LuaSession::*run)(const std::string& argument);
  };
  static const Command kCommands[];
  static bool is_command(std::string_view text);

  // session.cpp
  bool call_run(const char* function);
  void run_lua(const std::string& input);
  std::string compile(const std::string& source);
  std::string ends_in_expression(std::string statements);
  void load_input(const std::string& input);
  void call_and_show();
  void show_results();
  template <class Action>
  bool guarded(const Action& action);
  void push_prompt(const char* function);
  std::string call_prompt(int arguments);

  // commands.cpp
  std::string meant(const std::string& input);
  void run_command(const std::string& input);
  void help(const std::string& name);
  void shell(const std::string& command);
  void time(const std::string& expression);
  void bench(const std::string& expression);
  void memory(const std::string&);
  void save(const std::string& file);
  void load(const std::string& file);
  void commands(const std::string&);
  void quit(const std::string&);

  // session_complete.cpp
  static std::vector<Candidate> command_names(std::string_view prefix);
  Completion complete_command(const std::string& text, size_t cursor);
  Completion complete_lua(const std::string& text, size_t begin, size_t cursor);
  std::vector<Candidate> take_candidates();
  std::vector<Candidate> settings(const LuaContext& context, std::string_view typed);
  std::vector<Candidate> names(const char* kind, const std::vector<std::string>& path, std::string_view prefix, bool method,
                               const std::vector<std::string>& used);

  // session_error.cpp
  void show_error(const Error& error);
  static bool same_place(const std::string& where, const std::string& frame);
  std::string style(const char* code) const { return options_.colour ? "\x1b[" + std::string(code) + "m" : std::string(); }
  std::string quoted(const std::string& where, const std::string& line, const std::string& what);
  std::string callers(const std::string& where, std::vector<std::string> frames);
  std::string line_of(const std::string& where, std::string_view message);
  std::string hint_for(const std::string& message, std::string_view line);

  LuaSessionOptions options_;
  LuaState lua_;
  std::vector<std::string> inputs_;  // by number; errors quote their lines
  std::vector<size_t> saved_;        // those that `:save` writes
  bool in_lua_ = false;              // what runs was typed as Lua, so that errors can quote it
  bool quitting_ = false, interrupted_ = false;
  std::string completed_job_;  // the script whose job's paths were asked for last, and when it was written
};

// Names in the folder that `typed` begins with, folders with a slash; where the last part of `typed` begins is added to `from`.
std::vector<Candidate> file_names(std::string_view typed, size_t* from);

}  // namespace perigee
