// Reads and checks the arguments of pg.start and pg.attach.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "cluster/launch/steered_run.h"
#include "cluster/launch/worker_gpus.h"
#include "lua/job_file.h"
#include "lua/json.h"
#include "lua/run.h"
#include "lua/state.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/model/device/device_choice.h"
#include "src/run/live_run.h"
#include "src/run/local_run.h"

namespace perigee {
namespace {

// The first argument of pg.start: a path, or an experiment of `script`; with "path=value" settings applied.
Job job_to_start(lua_State* L, const std::string& script, const std::vector<std::string>& settings) {
  const LuaOptions& lua = lua_options(L);
  if (lua_type(L, 1) == LUA_TSTRING) return load_job(lua_tostring(L, 1), settings, {.interrupt = lua.interrupt});
  Job job(to_json(L, 1, "pg.start"), script, lua.folder);
  apply_settings(job, settings);
  return job;
}

// Wakes the prompt; never empty.
std::function<void()> wake_of(lua_State* L) {
  const LuaOptions& lua = lua_options(L);
  return lua.wake ? lua.wake : std::function<void()>([] {});
}

Secret secret_of(const Config& options) {
  const std::string file = options.string("secret", "");
  return file.empty() ? Secret() : Secret::from_file(file);
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

SessionOptions read_options(const Config& options) {
  SessionOptions session;
  session.trainer.threads = static_cast<int>(options.integer_in("threads", 0, 4096, 0));
  session.folder = options.boolean("folder", true);
  session.out = options.string("out", "");
  session.resume = options.string("resume", "");
  session.events_every = options.integer_in("events_every", 0, int64_t{1} << 40, 0);
  session.about = Json(Json::Object{{"script", options.string("script")}});
  return session;
}

LaunchOptions read_launch(const Config& options) {
  LaunchOptions launch;
  launch.workers = static_cast<int>(options.integer_in("workers", 1, 1024, 0));
  launch.agents = options.string_list("agents");
  launch.listen = options.string("listen", "");
  launch.secret = secret_of(options);
  launch.min_workers = static_cast<int>(options.integer_in("min_workers", 1, 1024, 1));
  if (launch.workers == 0 && launch.agents.empty() && launch.listen.empty())
    options.fail("workers", "is missing: a run of several processes needs workers", "none",
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

std::unique_ptr<Run> start_here(lua_State* L, const Config& options) {
  SessionOptions session = read_options(options);
  const std::vector<std::string> settings = options.string_list("set");
  options.reject_unread();
  const Job job = job_to_start(L, options.string("script"), settings);
  warn_of_gpus_in_one_process(job.json(), job.where());
  session.trainer.use(choose_device(job.json(), job.where() + ": device"));
  return std::make_unique<LiveRun>(job, std::move(session), wake_of(L));
}

std::unique_ptr<Run> start_workers(lua_State* L, const Config& options) {
  LaunchOptions launch = read_launch(options);
  const std::vector<std::string> settings = options.string_list("set");
  const std::string script = options.string("script");
  if (!options.boolean("folder", true))
    options.fail("folder", "a run of several workers keeps its ledger there", "false", "nothing, or out = FOLDER");
  options.reject_unread();
  const Job job = job_to_start(L, script, settings);
  return std::make_unique<HostedRun>(job, std::move(launch), wake_of(L));
}

// A cluster's folder says where its coordinator listens.
std::unique_ptr<Run> attach_folder(const std::string& folder, const Secret& secret, std::function<void()> wake) {
  const std::string coordinator = coordinator_of(folder);
  if (coordinator.empty()) return std::make_unique<LocalRun>(folder);
  return std::make_unique<RemoteRun>(coordinator, secret, std::move(wake));
}

}  // namespace

std::unique_ptr<Run> start_run(lua_State* L) {
  static constexpr const char* kOfWorkers[] = {"workers", "agents", "listen", "secret", "min_workers"};
  const Json given = to_json(L, 2, "pg.start");
  const Config options(given, "pg.start", ErrorKind::usage);
  const bool several =
      std::any_of(std::begin(kOfWorkers), std::end(kOfWorkers), [&](const char* name) { return given.find(name) != nullptr; });
  return several ? start_workers(L, options) : start_here(L, options);
}

std::unique_ptr<Run> attach_run(lua_State* L) {
  const std::string address = luaL_checkstring(L, 1);
  const Json given = to_json(L, 2, "pg.attach");
  const Config options(given, "pg.attach", ErrorKind::usage);
  const Secret secret = secret_of(options);
  options.reject_unread();
  if (folder_exists(address)) return attach_folder(address, secret, wake_of(L));
  return std::make_unique<RemoteRun>(address, secret, wake_of(L));
}

}  // namespace perigee
