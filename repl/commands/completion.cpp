// `perigee completion bash|zsh|fish`: a script for the shell, made from the commands' own options. What it asks back: `completion paths
// SCRIPT TYPED`, the paths that --set could name; `completion job SCRIPT`, what the prompt asks for them, is the job alone.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <cstdio>

#include "lua/state.h"
#include "repl/commands/command.h"
#include "repl/commands/load.h"
#include "src/core/error.h"

namespace perigee {
namespace {

constexpr unsigned kDeadlineSeconds = 2;  // of a script whose paths are completed: then the process ends

std::string chosen_shell;
std::vector<std::string> about;  // script and what was typed

void declare_completion(CLI::App& app) {
  app.add_option("shell", chosen_shell, "bash, zsh or fish")->required();
  app.add_option("about", about, "")->group("");
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string command_names() {
  std::string text;
  for (const Command* command : commands()) text += (text.empty() ? "" : " ") + std::string(command->name);
  return text;
}

// "    train) options='--set --epochs' ;;" for each.
std::string option_cases(const char* before, const char* after) {
  std::string text;
  for (const Command* command : commands())
    text += std::string("    ") + command->name + ") options=" + before + joined(option_names(*command)) + after + " ;;\n";
  return text + "  esac\n";
}

std::string bash_script() {
  return "# eval \"$(perigee completion bash)\"\n"
         "_perigee_paths() {\n"
         "  local script= each\n"
         "  for each in \"${COMP_WORDS[@]:2}\"; do\n"
         "    case $each in *.lua|*.json|*.yaml|*.yml) script=$each ;; *) [[ -f $each/job.json ]] && script=$each ;; esac\n"
         "  done\n"
         "  mapfile -t COMPREPLY < <(\"${COMP_WORDS[0]}\" completion paths \"${script/#\\~\\//$HOME/}\" \"$1\" 2>/dev/null)\n"
         "  COMPREPLY=(\"${COMPREPLY[@]%%$'\\t'*}\")\n"
         "  compopt +o filenames -o nospace\n"
         "}\n"
         "_perigee() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options=\n"
         "  if [[ $COMP_CWORD -eq 1 ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W '" +
         command_names() +
         "' -- \"$word\")\n"
         "    return\n"
         "  fi\n"
         "  if [[ $before == = && ${COMP_WORDS[COMP_CWORD-2]} == --set ]]; then before=--set; fi  # --set=path\n"
         "  if [[ $before == --set ]]; then\n"
         "    _perigee_paths \"${word#=}\"\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         option_cases("'", "'") +
         "  if [[ ${COMP_WORDS[1]} == completion ]]; then options='bash zsh fish'; fi\n"
         "  if [[ ${COMP_WORDS[1]} == help ]]; then options+=' " +
         command_names() +
         "'; fi\n"
         "  if [[ $word == -* || ${COMP_WORDS[1]} == completion || ${COMP_WORDS[1]} == help ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
         "  else\n"
         "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _perigee perigee\n";
}

std::string zsh_script() {
  return "#compdef perigee\n"
         "# eval \"$(perigee completion zsh)\"\n"
         "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"
         "_perigee_paths() {\n"
         "  local script= each\n"
         "  local -a found\n"
         "  for each in $words[3,-1]; do\n"
         "    case $each in (*.lua|*.json|*.yaml|*.yml) script=$each ;; (*) [[ -f $each/job.json ]] && script=$each ;; esac\n"
         "  done\n"
         "  found=(\"${(@f)$($words[1] completion paths \"${script/#\\~\\//$HOME/}\" \"$PREFIX\" 2>/dev/null)}\")\n"
         "  compadd -S '' -l -d found -- ${found%%$'\\t'*}\n"
         "}\n"
         "_perigee() {\n"
         "  local -a options\n"
         "  if (( CURRENT == 2 )); then\n"
         "    compadd -- " +
         command_names() +
         "\n    return\n"
         "  fi\n"
         "  if [[ $words[CURRENT-1] == --set ]] || compset -P '--set='; then\n"
         "    _perigee_paths\n"
         "    return\n"
         "  fi\n"
         "  case $words[2] in\n" +
         option_cases("(", ")") +
         "  if [[ $words[2] == completion ]]; then\n"
         "    compadd bash zsh fish\n"
         "  elif [[ $words[2] == help ]]; then\n"
         "    compadd -- " +
         command_names() +
         "\n"
         "  elif [[ $words[CURRENT] == -* ]]; then\n"
         "    compadd -- $options\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "if [[ $funcstack[1] == _perigee ]]; then _perigee \"$@\"; else compdef _perigee perigee; fi\n";  // the former: in $fpath
}

std::string fish_script() {
  std::string text =
      "# perigee completion fish | source\n"
      "function __perigee_paths\n"
      "  set -l words (commandline -opc)\n"
      "  set -l script ''\n"
      "  for each in $words[3..]\n"
      "    if string match -qr '\\.(lua|json|yaml|yml)$' -- $each; or test -f $each/job.json\n"
      "      set script $each\n"
      "    end\n"
      "  end\n"
      "  set -l typed (commandline -ct | string replace -r '^--set=' '')\n"
      "  $words[1] completion paths (string replace -r '^~/' \"$HOME/\" -- \"$script\") \"$typed\" 2>/dev/null\n"
      "end\n"
      "complete -c perigee -n __fish_use_subcommand -f -a '" +
      command_names() + "'\n";
  for (const Command* command : commands())
    for (const std::string& option : option_names(*command))
      text += std::string("complete -c perigee -n '__fish_seen_subcommand_from ") + command->name + "' -l " + option.substr(2) +
              (option == "--set" ? " -x -a '(__perigee_paths)'" : "") + "\n";
  text += "complete -c perigee -n '__fish_seen_subcommand_from help' -f -a '" + command_names() + "'\n";
  return text + "complete -c perigee -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
}

// Discards the script's output, and limits its time.
Job load_quietly(const std::string& script) {
  alarm(kDeadlineSeconds);
  std::fflush(stdout);
  const int output = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (output < 0 || nowhere < 0)
    throw Error(ErrorKind::resources, {"completion", "there are no descriptors left", "", "", "close files, or raise `ulimit -n`"});
  dup2(nowhere, STDOUT_FILENO);
  Job job = load_job(script, {});
  std::fflush(stdout);
  dup2(output, STDOUT_FILENO);
  close(output);
  close(nowhere);
  return job;
}

// Each on a line: path, tab, note.
void print_paths(const Json& job, const std::string& typed) {
  LuaState lua({});
  lua_State* L = lua.raw();
  lua_gc(L, LUA_GCSTOP, 0);  // runs once, as at the first prompt
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  lua.load("local text, typed = ... return require('perigee.prompt').paths(text, {}, typed)", "paths");
  const std::string text = job.dump();
  lua_pushlstring(L, text.data(), text.size());
  lua_pushlstring(L, typed.data(), typed.size());
  lua.call(2, 1);
  const std::string before = typed.substr(0, typed.rfind('.') + 1);  // rfind gives npos where there is none
  for (int i = 1; i + 1 <= static_cast<int>(lua_objlen(L, -1)); i += 2) {
    lua_rawgeti(L, -1, i);
    lua_rawgeti(L, -2, i + 1);
    std::printf("%s%s\t%s\n", before.c_str(), lua_tostring(L, -2), lua_tostring(L, -1));
    lua_pop(L, 2);
  }
}

int run_completion() {
  about.resize(2);
  if (chosen_shell == "bash") std::fputs(bash_script().c_str(), stdout);
  else if (chosen_shell == "zsh") std::fputs(zsh_script().c_str(), stdout);
  else if (chosen_shell == "fish") std::fputs(fish_script().c_str(), stdout);
  else if (chosen_shell == "job") std::printf("%s\n", load_quietly(about[0]).canonical().dump().c_str());
  else if (chosen_shell == "paths") print_paths(about[0].empty() ? Json::object() : load_quietly(about[0]).canonical(), about[1]);
  else
    throw Error(ErrorKind::usage, {"completion", "there is no script for this shell", "'" + chosen_shell + "'", "bash, zsh or fish",
                                   nearest_hint(chosen_shell, {"bash", "zsh", "fish"})});
  return 0;
}

}  // namespace

extern const Command command_completion;
const Command command_completion{
    .name = "completion", .doc = "print a completion script for a shell", .declare = declare_completion, .run = run_completion};

}  // namespace perigee
