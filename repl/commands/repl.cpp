// `perigee repl [SCRIPT]`: the prompt.
#include <CLI/App.hpp>
#include <string>

#include "repl/commands/command.h"
#include "repl/console/console.h"

namespace perigee {
namespace {

ConsoleOptions repl_options;

void declare_repl(CLI::App& app) {
  app.add_option("script", repl_options.script, "a Lua script that is run first; what it returns is in _");
  app.add_option("-e", repl_options.expressions, "run this, print its value, and leave")->allow_extra_args(false);
  app.footer("Reads Lua from standard input where there is no terminal, and exits with 1 after an error.");
}

int run_repl() { return run_console(repl_options); }

}  // namespace

extern const Command command_repl;
const Command command_repl{.name = "repl",
                           .doc = "a prompt for Lua with Perigee loaded; `perigee` alone on a terminal is the same",
                           .declare = declare_repl,
                           .run = run_repl};

}  // namespace perigee
