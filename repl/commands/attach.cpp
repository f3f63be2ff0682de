// `perigee attach HOST:PORT`: the prompt, with the run of a cluster in `run`.
#include <CLI/App.hpp>
#include <cstdio>
#include <string>

#include "cluster/launch/agent_main.h"
#include "repl/commands/command.h"
#include "repl/console/console.h"
#include "src/core/error.h"

namespace perigee {
namespace {

ConsoleOptions console;
std::string address, secret;

void declare(CLI::App& app) {
  app.add_option("address", address, "of the run's coordinator: host:port, as `perigee train --listen` has it")->required();
  app.add_option("script", console.script, "a Lua script that is run first");
  app.add_option("--secret", secret, "the file with the cluster's secret. Who has it may steer; a run without one can only be watched");
  app.add_option("-e", console.expressions, "run this, print its value, and leave")->allow_extra_args(false);
  app.footer(
      "run.progress, run.workers, run.averaging, run:plot \"loss\", run:on(\"epoch\", f) watch; run:pause(), run:resume(), run:kick(2),\n"
      "run.averaging.every = 20, run.lr = 0.01, run:checkpoint() and run:stop() steer. Leaving the prompt leaves the run alone.");
}

std::string lua_text_of(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\', quoted += c;
    else if (static_cast<unsigned char>(c) < 32) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\%03d", c);
      quoted += escape;
    } else quoted += c;
  }
  return quoted + "\"";
}

int run() {
  // Asked once before the prompt, so that a wrong address or secret ends with its own exit code.
  const Json status = ask_status(address, secret.empty() ? Secret() : Secret::from_file(secret));
  if (const Json* role = status.find("role"); role && role->is_string())
    throw Error(ErrorKind::usage, {.where = address,
                                   .what = "a coordinator was expected; there answers the " + role->as_string(),
                                   .hint = "`perigee status " + address + "` tells where its jobs' coordinators are"});
  console.prelude =
      "run = pg.attach(" + lua_text_of(address) + (secret.empty() ? "" : ", { secret = " + lua_text_of(secret) + " }") + ") cluster = run";
  return run_console(console);
}

}  // namespace

extern const Command command_attach;
const Command command_attach{
    .name = "attach", .doc = "the prompt on a run of a cluster: watch and steer it", .declare = declare, .run = run};

}  // namespace perigee
