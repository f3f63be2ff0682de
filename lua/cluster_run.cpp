#include "lua/cluster_run.h"

#include <unistd.h>

#include <memory>
#include <string_view>
#include <thread>

#include "cluster/launch/steered_run.h"
#include "lua/job_file.h"
#include "lua/json.h"
#include "lua/run_handle.h"
#include "lua/state.h"
#include "lua/tensor.h"
#include "src/core/error.h"

namespace perigee {
namespace {

constexpr char kType[] = "perigee.cluster_run";
using Handle = RunHandle<SteeredRun, kType>;

SteeredRun& run_at(lua_State* L, int index) { return Handle::at(L, index); }

Secret secret_of(const Config& options) {
  const std::string file = options.string("secret", "");
  return file.empty() ? Secret() : Secret::from_file(file);
}

// attach(address, options): handle
int attach(lua_State* L) {
  const std::string address = luaL_checkstring(L, 1);
  const Json given = to_json(L, 2, "pg.attach");
  const Config options(given, "pg.attach", ErrorKind::usage);
  const Secret secret = secret_of(options);
  options.reject_unread();
  Handle::push(L) = std::make_unique<RemoteRun>(address, secret, wake_of(L));
  return 1;
}

// Workers are this program, started again.
void check_program() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  const std::string_view program(path, size > 0 ? static_cast<size_t>(size) : 0);
  if (program.ends_with("/perigee")) return;
  throw Error(ErrorKind::usage, {.where = "pg.start: workers",
                                 .what = "worker processes are the program `perigee`, started again",
                                 .got = std::string(program),
                                 .hint = "run this in `perigee`, or give agents = { \"host:port\" }"});
}

LaunchOptions read_launch(const Config& options) {
  LaunchOptions launch;
  launch.workers = static_cast<int>(options.integer_in("workers", 1, 1024, 0));
  launch.agents = options.string_list("agents");
  launch.listen = options.string("listen", "");
  launch.secret = secret_of(options);
  launch.min_workers = static_cast<int>(options.integer_in("min_workers", 1, 1024, 1));
  if (launch.workers == 0 && launch.agents.empty() && launch.listen.empty())
    options.fail("workers", "is missing: a run of several processes has nobody to train it", "none",
                 "workers = 2, agents = {...} or listen = \"HOST:PORT\"");
  launch.session.trainer.threads = static_cast<int>(options.integer_in("threads", 0, 4096, 0));
  launch.session.out = options.string("out", "");
  launch.session.resume = options.string("resume", "");
  launch.session.about = Json(Json::Object{{"script", options.string("script")}});
  if (launch.agents.empty() && launch.workers > 0) {
    check_program();
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    if (launch.session.trainer.threads == 0) launch.session.trainer.threads = std::max(1, cores / launch.workers);
  }
  return launch;
}

// start(path or experiment, options): handle
int start(lua_State* L) {
  const Json given = to_json(L, 2, "pg.start");
  const Config options(given, "pg.start", ErrorKind::usage);
  LaunchOptions launch = read_launch(options);
  const std::vector<std::string> settings = options.string_list("set");
  const std::string script = options.string("script");
  if (!options.boolean("folder", true))
    options.fail("folder", "a run of several workers keeps its ledger there", "false", "nothing, or out = FOLDER");
  options.reject_unread();
  const Job job = job_to_start(L, script, settings);
  Handle::push(L) = std::make_unique<HostedRun>(job, std::move(launch), wake_of(L));
  return 1;
}

// report(run): as SteeredRun::report
int report_of(lua_State* L) {
  push_json(L, run_at(L, 1).report(lua_options(L).interrupt));
  return 1;
}

// steer(run, command)
int steer(lua_State* L) {
  run_at(L, 1).steer(to_json(L, 2, "command"), lua_options(L).interrupt);
  lua_pushboolean(L, 1);
  return 1;
}

}  // namespace

void add_cluster_run_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"attach", report<attach>}, {"start", report<start>},           {"report", report<report_of>},
      {"steer", report<steer>},   {"events", report<Handle::events>}, {"close", report<Handle::close>},
      {nullptr, nullptr},
  };
  Handle::add_type(L);
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
