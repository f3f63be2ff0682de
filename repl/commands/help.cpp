// `perigee help`: the commands; `perigee help train`: its options; `perigee help early_stopping`: what the prompt's ?early_stopping shows.
// `perigee help --man FOLDER` writes the manual pages, which installations have, from the same declarations.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <span>

#include "lua/state.h"
#include "repl/commands/command.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/job/job_schema.h"

namespace perigee {
namespace {

std::string topic, man_folder;

void declare_help(CLI::App& app) {
  app.add_option(
      "topic", topic,
      "a command, a key of a job, any name of the prompt's, or all of a kind: train, early_stopping, adamw, pg.data.csv, losses");
  app.add_option("--man", man_folder, "write the manual pages into this folder instead");
}

bool is_command(const std::string& name) {
  for (const Command* command : commands())
    if (name == command->name) return true;
  return false;
}

// As `perigee NAME --help`; the root's where there is no name.
int show_command(const std::string& name) {
  std::string program = "perigee", option = "--help", command = name;
  std::vector<char*> arguments = {program.data()};
  if (!command.empty()) arguments.push_back(command.data());
  arguments.push_back(option.data());
  const int code = run_command_line(static_cast<int>(arguments.size()), arguments.data());
  if (command.empty())
    std::puts(
        "\n`perigee help COMMAND` shows a command's options; `perigee help NAME` explains what a script may name: perigee help "
        "early_stopping");
  return code;
}

// Keys of a job that have a command's name: "job.data", "data.train".
void name_keys_called(const std::string& name) {
  const auto tell = [&](const std::string& key) {
    std::printf("\n'%s' is also a key of a job: `perigee help %s` explains it\n", name.c_str(), key.c_str());
  };
  for (const Option& option : job_schema.options) {
    if (name == option.name) tell("job." + name);
    const bool section = option.inside != nullptr && (option.type->values & takes::list) == 0;
    if (section && option.inside->find(name) != nullptr) tell(option.name + ("." + name));
  }
}

int columns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

// The text of the prompt's ?name.
std::string name_help(const std::string& name) {
  LuaState lua({});
  lua_State* L = lua.raw();
  lua_gc(L, LUA_GCSTOP, 0);  // runs once, as at the first prompt
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  lua.load("local name, columns = ... pg = require 'perigee' return require('perigee.help').text(name, columns)", "help");
  lua_pushlstring(L, name.data(), name.size());
  lua_pushinteger(L, columns());
  lua.call(2, 1);
  return lua_tostring(L, -1);
}

// Text of a manual page: nothing in it is a request or an escape.
std::string man_text(const std::string& text) {
  std::string escaped = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) escaped += c == '\\' ? "\\e" : c == '-' ? "\\-" : c == '\n' ? " " : std::string(1, c);
  return escaped;
}

std::string man_option(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "" : ", ") + ("\\fB" + man_text("-" + name)) + "\\fR";
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "" : ", ") + ("\\fB" + man_text("--" + name)) + "\\fR";
  if (names.empty()) names = "\\fI" + man_text(option.get_name()) + "\\fR";
  const std::string value = CLI::Formatter().make_option_opts(&option);
  return ".TP\n" + names + man_text(value) + "\n" + man_text(option.get_description()) + "\n";
}

// Each group under its own heading, in the order of the declarations; a group without a name is not shown.
std::string man_options(const CLI::App& app, bool positional) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : app.get_options())
    if (std::find(groups.begin(), groups.end(), option->get_group()) == groups.end()) groups.push_back(option->get_group());
  std::string text;
  for (const std::string& group : groups) {
    std::string options;
    for (const CLI::Option* option : app.get_options())
      if (option->get_group() == group && option->get_positional() == positional) options += man_option(*option);
    if (group.empty() || options.empty()) continue;
    text += (group == "Options" ? "" : ".SS " + man_text(group) + "\n") + options;
  }
  return text;
}

std::string man_head(const std::string& title, const std::string& doc) {
  std::string upper = title;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return ".TH " + upper + " 1 \"\" \"Perigee " PERIGEE_VERSION "\" \"Perigee\"\n.SH NAME\n" + man_text(title) + " \\- " + man_text(doc) +
         "\n";
}

std::string man_end(const CLI::App& app, const std::string& see_also) {
  const std::string notes = app.get_footer() == kExitCodes ? "" : ".SH NOTES\n" + man_text(app.get_footer()) + "\n";
  return notes + ".SH EXIT STATUS\n" + man_text(kExitCodes) + "\n.SH SEE ALSO\n" + see_also + "\n";
}

std::string man_page(const CLI::App& app, const std::string& name) {
  std::string usage = CLI::Formatter().make_usage(&app, "");
  usage = usage.substr(usage.find(':') + 1);
  while (!usage.empty() && (usage.back() == '\n' || usage.back() == ' ')) usage.pop_back();
  const std::string arguments = man_options(app, true), options = man_options(app, false);
  return man_head("perigee-" + name, app.get_description()) + ".SH SYNOPSIS\n\\fBperigee " + man_text(name) + "\\fR " + man_text(usage) +
         "\n" + (arguments.empty() ? "" : ".SH ARGUMENTS\n" + arguments) + ".SH OPTIONS\n" + options + man_end(app, "\\fBperigee\\fR(1)");
}

std::string root_man_page(const CLI::App& app) {
  std::string text =
      man_head("perigee", "train neural networks on one machine or on many") +
      ".SH SYNOPSIS\n\\fBperigee\\fR [OPTIONS] [COMMAND]\n.SH DESCRIPTION\n" +
      man_text(
          "A Lua script, JSON or YAML describes a network, its data and how it is trained; perigee trains it on this machine or on "
          "several. Without a command, on a terminal, it is a prompt for Lua.") +
      "\n.SH COMMANDS\n";
  for (const Command* command : commands())
    text += std::string(".TP\n\\fBperigee\\-") + man_text(command->name) + "\\fR(1)\n" + man_text(command->doc) + "\n";
  text += ".SH OPTIONS\n" + man_options(app, false);
  text += ".SH EXAMPLES\n.nf\n" + man_text("perigee train models/lenet.lua") + "\n" + man_text("perigee help early_stopping") + "\n.fi\n";
  return text + man_end(app, "\\fBperigee\\-help\\fR(1), \\fBperigee\\-train\\fR(1)");
}

int write_man_pages(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  CLI::App app("", "perigee");
  declare_command_line(app);
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file((folder / (name + ".1")).string(), std::as_bytes(std::span(text)));
  };
  write("perigee", root_man_page(app));
  for (const Command* command : commands())
    write(std::string("perigee-") + command->name, man_page(*app.get_subcommand(command->name), command->name));
  return 0;
}

int run_help() {
  if (!man_folder.empty()) return write_man_pages(man_folder);
  if (topic.empty() || is_command(topic)) {
    const int code = show_command(topic);
    name_keys_called(topic);
    return code;
  }
  std::string text;
  try {
    text = name_help(topic);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::resources) throw;
    std::vector<std::string> names;
    for (const Command* command : commands()) names.emplace_back(command->name);
    const std::string hint = nearest_hint(topic, names);
    throw Error(ErrorKind::usage, {.what = hint.empty() ? error.parts().what : "there is no help for '" + topic + "'", .hint = hint});
  }
  return std::fputs(text.c_str(), stdout) < 0;
}

}  // namespace

extern const Command command_help;
const Command command_help{
    .name = "help", .doc = "explain a command, a key of a job or a name of scripts", .declare = declare_help, .run = run_help};

}  // namespace perigee
