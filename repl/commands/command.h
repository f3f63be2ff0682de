// One file per subcommand. Each declares its options, and runs once they are parsed.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace perigee {

struct Command {
  const char* name = nullptr;
  const char* doc = nullptr;
  void (*declare)(CLI::App& app) = nullptr;
  int (*run)() = nullptr;  // the exit code; may throw Error
};

std::span<const Command* const> commands();

// Parses the command line and runs the command. The exit code: see kExitCodes.
int run_command_line(int argc, char** argv);
// Declares what run_command_line() parses: the program's own options, and all commands. With `words`, only commands that are among them get
// their options: those of all take longer than all else that a short command does.
void declare_command_line(CLI::App& app, const std::vector<std::string_view>* words = nullptr);
// The options of every subcommand, for completion: "train" -> {"--set", "--epochs", ...}.
std::vector<std::string> option_names(const Command& command);

inline constexpr const char* kExitCodes =
    "Exit codes: 0 success, 2 usage, 3 data, 4 model or script, 5 cluster, 6 authentication, 7 resources, 130 Ctrl-C, 143 SIGTERM.";

}  // namespace perigee
