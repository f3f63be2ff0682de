// `perigee attach RUN`: the prompt, with the run that another process trains in `run`.
#include <CLI/App.hpp>
#include <cstdio>
#include <string>

#include "cluster/launch/agent_main.h"
#include "repl/commands/command.h"
#include "repl/console/console.h"
#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee {
namespace {

ConsoleOptions console;
std::string address, secret;

void declare_attach(CLI::App& app) {
  app.add_option("address", address,
                 "a run folder of this machine, or host:port of a run's coordinator, as `perigee train --listen` has it")
      ->required();
  app.add_option("script", console.script, "a Lua script that is run first");
  app.add_option("--secret", secret, "the file with the cluster's secret. Who has it may steer; a cluster without one can only be watched");
  app.add_option("-e", console.expressions, "run this, print its value, and leave")->allow_extra_args(false);
  app.footer(
      "run.progress, run:plot \"loss\", run:on(\"epoch\", f) watch, of a cluster also run.workers and run.averaging; run.lr = 0.01,\n"
      "run.optimizer.momentum = 0.8, run:pause(), run:resume(), run:checkpoint() and run:stop() steer, of a cluster also run:kick(2) and\n"
      "run.averaging.every = 20. ?run.optimizer lists what can be set. Leaving the prompt leaves the run alone.");
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

// A wrong address or secret ends with its own exit code.
void check_coordinator() {
  const Json status = ask_status(address, secret.empty() ? Secret() : Secret::from_file(secret));
  if (const Json* role = status.find("role"); role && role->is_string())
    throw Error(ErrorKind::usage, {.where = address,
                                   .what = "a coordinator was expected; there answers the " + role->as_string(),
                                   .hint = "`perigee status " + address + "` tells where its jobs' coordinators are"});
}

int run_attach() {
  if (!folder_exists(address) && address.find(':') == std::string::npos)
    throw Error(ErrorKind::usage, {.where = address,
                                   .what = "there is no folder of this name",
                                   .expected = "the folder of a run, or HOST:PORT of a coordinator",
                                   .hint = nearby_hint(address)});
  if (!folder_exists(address)) check_coordinator();
  else if (!file_exists(address + "/log.jsonl"))
    throw Error(ErrorKind::usage,
                {address, "there is no run in this folder", "", "a folder with log.jsonl, or HOST:PORT of a coordinator"});
  console.prelude =
      "run = pg.attach(" + lua_text_of(address) + (secret.empty() ? "" : ", { secret = " + lua_text_of(secret) + " }") + ") cluster = run";
  return run_console(console);
}

}  // namespace

extern const Command command_attach;
const Command command_attach{.name = "attach",
                             .doc = "the prompt on a run that another process trains: watch and steer it",
                             .declare = declare_attach,
                             .run = run_attach};

}  // namespace perigee
