// `perigee train`: evaluates the script, trains, and leaves a run folder.
#include <CLI/App.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <set>

#include "cluster/launch/cluster_job.h"
#include "cluster/launch/worker_gpus.h"
#include "cluster/policy/policy.h"
#include "cluster/uv/process.h"
#include "repl/commands/command.h"
#include "repl/commands/load.h"
#include "repl/commands/train/detach.h"
#include "repl/commands/train/dry_run.h"
#include "repl/commands/train/repeated.h"
#include "repl/commands/train/stored_run.h"
#include "repl/commands/train_cluster.h"
#include "repl/display/display.h"
#include "repl/signals.h"
#include "src/core/config.h"
#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/file.h"
#include "src/model/device/device_choice.h"
#include "src/run/run_folder.h"
#include "src/run/run_server.h"
#include "src/run/session.h"

namespace perigee {
namespace {

struct TrainOptions {
  std::string script, out, resume, device, log = "pretty", trace, seeds;
  std::vector<std::string> settings;
  int64_t epochs = 0, steps = 0, batch = 0, seed = 0, threads = 0, folds = 0;
  bool unstratified = false, dry_run = false, detach = false;
  ClusterOptions cluster;
  CLI::Option* seed_option = nullptr;
  CLI::Option* resume_option = nullptr;
} train_command_options;

void declare_train(CLI::App& app) {
  app.add_option("script", train_command_options.script, "SCRIPT.lua, JOB.json or JOB.yaml; may be left out with --resume RUN");
  app.add_option("--set", train_command_options.settings,
                 "set a value of the job, as in --set optimizer.lr=0.01 or --set network.layers.2.out=64 (places count from 1, as in "
                 "messages; or a "
                 "layer's name); may be given several times")
      ->allow_extra_args(false);
  app.add_option("--epochs", train_command_options.epochs, "passes over the training data")->check(CLI::PositiveNumber);
  app.add_option("--steps", train_command_options.steps,
                 "stop after so many steps; in a cluster, after so many batches of all workers together")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", train_command_options.batch, "examples per step")->check(CLI::PositiveNumber);
  train_command_options.seed_option = app.add_option("--seed", train_command_options.seed, "of initial values, order and noise");
  app.add_option("--threads", train_command_options.threads,
                 "threads to train with, in a cluster those of each worker; the default shares out the cores")
      ->check(CLI::PositiveNumber);
  app.add_option("--device", train_command_options.device,
                 "cpu (the default, unless the job says); cuda or cuda:N: an NVIDIA GPU; cuda:0-3, cuda:0,2: several, each with its own "
                 "batch; auto: a GPU where there is one; ref: the reference kernels, "
                 "slow and obvious; check:cpu,ref or check:cuda,ref: both, compared call by call");
  app.add_option("--folds", train_command_options.folds,
                 "cross-validation: so many runs, each tested on another part of the training data; a table with mean and deviation")
      ->check(CLI::Range(2, 1000));
  app.add_flag("--no-stratify", train_command_options.unstratified, "folds by chance alone; else each has its share of each class");
  app.add_option("--seeds", train_command_options.seeds,
                 "so many runs, with the job's seed and those after it; or with the seeds of a list, as in 1,2,7");
  app.add_flag("--dry-run", train_command_options.dry_run,
               "check everything, make a few steps, and tell what a run would take; there is no run folder");
  app.add_flag("--detach", train_command_options.detach,
               "train on without this terminal: come back once it trains, and tell how to follow and stop it");
  app.add_option("--out", train_command_options.out, "the run folder; the default is runs/<name>-<time>");
  train_command_options.resume_option =
      app.add_option("--resume", train_command_options.resume,
                     "continue a run: its folder or a checkpoint; without a value, the newest run of this job")
          ->expected(0, 1);
  app.add_option("--log", train_command_options.log, "pretty, plain or json (JSON Lines on standard output)");
  app.add_option("--trace", train_command_options.trace, "write a timeline of every phase, for ui.perfetto.dev, to this file");
  declare_cluster_options(app, &train_command_options.cluster);
}

// The run folder that a checkpoint or a folder belongs to.
std::string run_of(const std::string& resume) {
  namespace fs = std::filesystem;
  const fs::path path = fs::path(resume).lexically_normal();
  return fs::is_directory(path) ? path.string() : path.parent_path().parent_path().string();
}

[[noreturn]] void no_such_run(const std::string& resume) {
  std::vector<std::string> runs;
  std::error_code status;
  for (const auto& entry : std::filesystem::directory_iterator("runs", status)) runs.push_back(entry.path().string());
  std::string hint = nearest_hint(resume, runs);
  if (hint.empty() && !runs.empty()) hint = "the newest run is " + *std::max_element(runs.begin(), runs.end());
  throw Error(ErrorKind::usage,
              {"--resume " + resume, "there is no run or checkpoint of this name", "", "a run folder or a file of its checkpoints", hint});
}

Job job_to_train() {
  std::string script = train_command_options.script;
  if (script.empty()) {
    if (train_command_options.resume.empty())
      throw Error(ErrorKind::usage, {"train", "a script or a job is needed", "", "", "for example `perigee train models/lenet.lua`"});
    if (!std::filesystem::exists(train_command_options.resume)) no_such_run(train_command_options.resume);
    script = run_of(train_command_options.resume);
  }
  Job job = load_job(script, train_command_options.settings);
  for (const auto& [key, value] : {std::pair{"epochs", train_command_options.epochs},
                                   {"steps", train_command_options.steps},
                                   {"data.batch", train_command_options.batch},
                                   {"threads", train_command_options.threads}})
    if (value > 0) job.set(key, std::to_string(value));
  // --steps alone means so many steps, however many epochs the script names.
  if (train_command_options.seed_option->count() > 0) job.set("seed", std::to_string(train_command_options.seed));
  if (!train_command_options.device.empty()) job.set("device", train_command_options.device);  // the workers of a cluster read it there
  return job;
}

std::string resume_source(const Job& job) {
  if (train_command_options.resume_option->count() == 0) return "";
  if (!train_command_options.resume.empty()) return train_command_options.resume;
  const std::string newest = newest_run(job.name());
  if (newest.empty()) throw Error(ErrorKind::usage, {"--resume", "there is no run of '" + job.name() + "' with a checkpoint in runs/"});
  return newest;
}

std::string resume_command(const std::string& folder, const std::string& repeats = "") {
  std::string command = "perigee train" + (train_command_options.script.empty() ? "" : " " + train_command_options.script);
  for (const std::string& setting : train_command_options.settings) command += " --set '" + setting + "'";
  for (const auto& [key, value] : {std::pair{"epochs", train_command_options.epochs},
                                   {"steps", train_command_options.steps},
                                   {"batch", train_command_options.batch},
                                   {"threads", train_command_options.threads}})
    if (value > 0) command += std::string(" --") + key + " " + std::to_string(value);
  if (train_command_options.seed_option->count() > 0) command += " --seed " + std::to_string(train_command_options.seed);
  if (!train_command_options.device.empty()) command += " --device " + train_command_options.device;
  return command + repeats + cluster_arguments(train_command_options.cluster) + " --resume " + folder;
}

// Several GPUs: where gradients meet in each step one process trains on all of them, else each has a worker of its own; unless the options
// say how the run is spread. What a worker takes of a list that several share goes into "devices".
void share_out_devices(Job* job) {
  const bool counted = job->json().find("devices") != nullptr;
  const int64_t gpus = gpus_of(job->json(), job->where()), workers = train_command_options.cluster.workers;
  if (gpus == 1) return;
  if (gpus_of_worker(job->json(), job->where()) == 1) {
    if (workers == 0 && train_command_options.cluster.listen.empty()) train_command_options.cluster.workers = gpus;
  } else if (!counted && workers > 1) {
    if (gpus % workers != 0)
      throw Error(ErrorKind::usage, {.where = "--workers",
                                     .what = "these GPUs cannot be shared out evenly",
                                     .got = std::to_string(workers) + " workers, " + std::to_string(gpus) + " GPUs",
                                     .expected = "a number of workers that divides " + std::to_string(gpus)});
    job->set("devices", std::to_string(gpus / workers));
  }
}

// Stopped by `perigee attach` it ends as by Ctrl-C.
int exit_code(const Json& end) {
  constexpr int kInterrupted = 130;
  const Json* stopped = end.find("stopped");
  if (!stopped || *stopped != Json("interrupted")) return 0;
  return stop_requested() ? stop_exit_code() : kInterrupted;
}

using Show = std::function<void(const Json& event, const std::string& folder)>;

// On this machine, where other processes may watch and steer it by its folder. The event "end".
Json train_alone(const Job& job, SessionOptions session_options, const Show& show) {
  WatchedRun watched([] {});
  session_options.hook = &watched.hook();
  Session session(job, std::move(session_options));
  session.add_sink([&](const Json& event) { show(event, session.folder()); });
  watched.begin(session);
  const std::unique_ptr<RunServer> server = RunServer::open(watched, session.folder());
  struct Close {
    WatchedRun& run;
    ~Close() { run.close(); }
  } close{watched};
  return session.run(stop_requested());
}

// The folder that --resume names knows how often its job is trained.
Repeats repeats_of(const Job& job, const std::string& resume) {
  const Repeats given(job, train_command_options.folds, train_command_options.seeds);
  if (resume.empty()) return given;
  Repeats kept = Repeats::read(resume);
  if (given.any() && !kept.any())
    throw Error(ErrorKind::usage, {"--resume " + resume, "is one run, and --folds and --seeds make several", "", "",
                                   "leave them out, or resume the folder that the runs are in"});
  if (given.any() && !(given == kept))
    throw Error(ErrorKind::usage, {"--resume " + resume, "the runs in this folder are others", given.arguments().substr(1),
                                   kept.arguments().substr(1), "leave them out: the folder knows them"});
  return kept;
}

// The runs are made one after the other, each with workers of its own, which end with it; what workers would do, and where time goes, is asked of
// one run.
void refuse_for_repeats(const Repeats& repeats, bool alone, const std::optional<Engine>& engine) {
  const std::string option = train_command_options.dry_run ? "--dry-run" : repeats.folds() > 0 ? "--folds" : "--seeds";
  if (!alone && train_command_options.dry_run)
    throw Error(ErrorKind::usage, {option, "works in this process alone", "a run of several workers", "",
                                   "leave out the workers; `perigee describe --workers` says what they would do"});
  const std::pair<const char*, const char*> gone =
      engine ? std::pair{"processes of a scheduler, which end with the first", "add --engine none"}
      : !train_command_options.cluster.listen.empty()
          ? std::pair{"workers that join by themselves, and end with the first", "leave out --listen"}
      : !train_command_options.cluster.standby.empty() ? std::pair{"a standby, which goes on with one", "leave out --standby"}
                                                       : std::pair{"", ""};
  if (!alone && *gone.first)
    throw Error(ErrorKind::usage, {option, "makes several runs", gone.first, "workers that each run starts", gone.second});
  if (!train_command_options.trace.empty())
    throw Error(ErrorKind::usage, {"--trace", "is a timeline of one run", option, "", "leave out one of the two"});
}

// Events that are shown of each of several runs while it goes on.
bool is_of_repeats(std::string_view kind) {
  constexpr std::string_view kShown[] = {"step", "workers", "error"};
  return std::ranges::find(kShown, kind) != std::end(kShown);
}

int train_several(const Job& job, const Repeats& repeats, const SessionOptions& session, Display& display, bool alone, Detached& detached) {
  const bool all = display_kind(train_command_options.log) == DisplayKind::json;
  const auto show = [&](const Json& event, const std::string& folder) {
    // A run has one line, when it is over; what it says of itself is in its folder.
    const Json* kind = event.find("event");
    if (all || (kind && kind->is_string() && is_of_repeats(kind->as_string()))) display.event(event);
    if (event.find("folder")) detached.begins(std::filesystem::path(folder).parent_path().string());
  };
  if (!alone) ClusterJob(repeats.job_of(job, repeats.runs(job)[0]), session.trainer);  // refuses what is wrong before there is a folder
  const RepeatedOptions how{.session = session,
                            .stratify = !train_command_options.unstratified,
                            .train =
                                [&](const Job& one, SessionOptions of_one) {
                                  if (alone) return train_alone(one, std::move(of_one), show);
                                  return train_in_cluster(
                                      one, train_command_options.cluster, nullptr,
                                      {.trainer = of_one.trainer, .out = of_one.out, .resume = of_one.resume, .about = of_one.about}, show);
                                },
                            .show = [&](const Json& event) { display.event(event); },
                            .resume_command = [&](const std::string& folder) { return resume_command(folder, repeats.arguments()); }};
  if (train_repeated(job, repeats, how, stop_requested())) return 0;
  constexpr int kInterrupted = 130;
  return stop_requested() ? stop_exit_code() : kInterrupted;
}

int tell_dry_run(const Job& job, const Repeats& repeats, const SessionOptions& session, Display& display) {
  const std::vector<Repeat> runs = repeats.any() ? repeats.runs(job) : std::vector<Repeat>();
  const Json result = dry_run(runs.empty() ? job : repeats.job_of(job, runs[0]), session, std::max<int64_t>(1, std::ssize(runs)));
  if (display_kind(train_command_options.log) == DisplayKind::json) display.event(result);
  else std::printf("%s\n", dry_run_text(result).c_str());
  return 0;
}

// A scheduler ends what outlives the process that it has started.
void refuse_to_detach(const std::optional<Engine>& engine) {
  const std::pair<const char*, const char*> why =
      train_command_options.dry_run ? std::pair{"--dry-run ends by itself", "leave out one of the two"}
      : engine ? std::pair{"a scheduler has started this process and ends what outlives it", "leave it out: the scheduler runs the job"}
               : std::pair{"", ""};
  if (*why.first) throw Error(ErrorKind::usage, {"--detach", "cannot be used here", why.first, "", why.second});
}

// Sums of gradients by a fixed tree have the same bits for any number of workers: for the one of a plain run as well.
void take_one_worker(const Job& job) {
  if (train_command_options.dry_run || in_cluster(train_command_options.cluster)) return;
  if (policy_of_job(job).shards > 0) train_command_options.cluster.workers = 1;
}

int train_here(const std::optional<Engine>& engine) {
  Detached detached;
  if (engine && engine->rank > 0)
    return train_for_engine(*engine, train_command_options.cluster, static_cast<int>(train_command_options.threads));
  std::unique_ptr<Display> display = make_display(display_kind(train_command_options.log));
  std::set<std::string> told;  // each once: the test data often has the same to say as the training data
  set_warning_handler([&](const std::string& text) {
    if (told.insert(text).second) display->warning(text);
  });
  struct Restore {
    ~Restore() { set_warning_handler({}); }
  } restore;
  try {
    const std::unique_ptr<StoredRun> stored = StoredRun::begin(&train_command_options.out, &train_command_options.resume);
    Job job = job_to_train();
    if (!engine) share_out_devices(&job), take_one_worker(job);
    TrainerOptions trainer{.threads = static_cast<int>(train_command_options.threads)};
    // Workers choose their GPUs themselves: this machine may have others, or none.
    const bool alone = !engine && !in_cluster(train_command_options.cluster);
    if (alone) warn_of_gpus_in_one_process(job.json(), job.where());
    const std::string named = train_command_options.device.empty() ? job.where() + ": device" : "--device";
    trainer.use(choose_device(device_of(job.json()), named, 0, alone ? gpus_of(job.json(), job.where()) : 1));
    const auto show = [&](const Json& event, const std::string& folder) {
      Json shown = event;
      if (const Json* stopped = event.find("stopped"); stopped && *stopped == Json("interrupted") && event.find("checkpoint"))
        shown.set("resume", resume_command(folder));
      display->event(shown);
      if (event.find("folder")) detached.begins(folder);
    };
    std::string resume = resume_source(job);
    if (engine && train_command_options.out.empty() && resume.empty()) {
      const std::string folder = engine_folder(*engine, job.name());
      const bool there = !folder.empty() && file_exists(folder + "/job.json");
      if (there && (engine->restarts > 0 || engine->resumes)) resume = folder;  // the scheduler started the job again
      else if (!there) train_command_options.out = folder;
    }
    Json about = Json(Json::Object{{"script", train_command_options.script}});
    const Repeats repeats = repeats_of(job, resume);
    if (train_command_options.dry_run || repeats.any()) refuse_for_repeats(repeats, alone, engine);
    const SessionOptions session{
        .trainer = trainer, .out = train_command_options.out, .resume = resume, .about = about, .trace = train_command_options.trace};
    if (train_command_options.dry_run) return tell_dry_run(job, repeats, session, *display);
    const auto ended = [&](int code) {
      if (stored) stored->finish();
      return code;
    };
    if (repeats.any()) return ended(train_several(job, repeats, session, *display, alone, detached));
    if (engine || in_cluster(train_command_options.cluster)) {
      const Json end = train_in_cluster(
          job, train_command_options.cluster, engine ? &*engine : nullptr,
          {.trainer = trainer, .out = train_command_options.out, .resume = resume, .about = about, .trace = train_command_options.trace},
          show);
      return ended(exit_code(end));
    }
    return ended(exit_code(train_alone(job, session, show)));
  } catch (const Error&) {
    if (stop_requested()) return stop_exit_code();  // an interrupted script
    throw;
  }
}

int run_train() {
  watch_signals("\nstopping at the next step; once more to quit at once\n");
  follow_parent(train_command_options.cluster.parent, SIGTERM);  // a front door, such as Spark's driver
  const std::optional<Engine> engine = engine_of(train_command_options.cluster);
  if (!train_command_options.detach) return train_here(engine);
  refuse_to_detach(engine);
  return train_detached();
}

}  // namespace

extern const Command command_train;
const Command command_train{.name = "train", .doc = "train a network from a script or a job", .declare = declare_train, .run = run_train};

}  // namespace perigee
