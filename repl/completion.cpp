// `perigee completion bash|zsh|fish`: a script for the shell, made from the commands' own options.
#include <CLI/App.hpp>
#include <cstdio>

#include "repl/command.h"
#include "src/core/error.h"

namespace perigee {
namespace {

std::string chosen_shell;

void declare(CLI::App& app) { app.add_option("shell", chosen_shell, "bash, zsh or fish")->required(); }

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

std::string bash_script() {
  std::string text =
      "# eval \"$(perigee completion bash)\"\n"
      "_perigee() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} options=\n"
      "  if [[ $COMP_CWORD -eq 1 ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W '" +
      command_names() +
      "' -- \"$word\")\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const Command* command : commands())
    text += std::string("    ") + command->name + ") options='" + joined(option_names(*command)) + "' ;;\n";
  return text +
         "  esac\n"
         "  if [[ ${COMP_WORDS[1]} == completion ]]; then options='bash zsh fish'; fi\n"
         "  if [[ $word == -* || ${COMP_WORDS[1]} == completion ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
         "  else\n"
         "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _perigee perigee\n";
}

std::string zsh_script() { return "# eval \"$(perigee completion zsh)\"\nautoload -U +X bashcompinit && bashcompinit\n" + bash_script(); }

std::string fish_script() {
  std::string text = "# perigee completion fish | source\ncomplete -c perigee -n __fish_use_subcommand -f -a '" + command_names() + "'\n";
  for (const Command* command : commands())
    for (const std::string& option : option_names(*command))
      text += std::string("complete -c perigee -n '__fish_seen_subcommand_from ") + command->name + "' -l " + option.substr(2) + "\n";
  return text + "complete -c perigee -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
}

int run() {
  if (chosen_shell == "bash") std::fputs(bash_script().c_str(), stdout);
  else if (chosen_shell == "zsh") std::fputs(zsh_script().c_str(), stdout);
  else if (chosen_shell == "fish") std::fputs(fish_script().c_str(), stdout);
  else
    throw Error(ErrorKind::usage, {"completion", "there is no script for this shell", "'" + chosen_shell + "'", "bash, zsh or fish",
                                   nearest_hint(chosen_shell, {"bash", "zsh", "fish"})});
  return 0;
}

}  // namespace

extern const Command command_completion;
const Command command_completion{.name = "completion", .doc = "print a completion script for a shell", .declare = declare, .run = run};

}  // namespace perigee
