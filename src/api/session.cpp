// perigee.h: whole runs, in this process or with several.
#include "src/run/session.h"

#include <sstream>
#include <thread>

#include "cluster/launch/launcher.h"
#include "cluster/launch/phased_run.h"
#include "cluster/launch/worker_gpus.h"
#include "src/api/handles.h"
#include "src/data/sources/host.h"
#include "src/job/job_parts.h"
#include "src/model/device/device_choice.h"

using namespace perigee;

namespace {

constexpr int32_t kMostWorkers = 1024;

bool in_cluster(const perigee_train_options& given) { return given.workers != 0 || given.agents || given.listen; }

// The folder that is resumed goes on; any other must be new.
std::string out_of(const perigee_train_options& given) {
  const std::string folder = given.folder ? given.folder : "";
  return given.resume && folder == given.resume ? "" : folder;
}

LaunchOptions launch_options(const perigee_train_options& given, int threads) {
  constexpr const char* kHere = "perigee_job_train";
  if (given.workers < 0 || given.workers > kMostWorkers)
    misuse(kHere, "workers is out of range", std::to_string(given.workers), "0 to " + std::to_string(kMostWorkers));
  if (given.min_workers < 0 || given.min_workers > kMostWorkers)
    misuse(kHere, "min_workers is out of range", std::to_string(given.min_workers), "0 to " + std::to_string(kMostWorkers));
  require(given.folder != nullptr, kHere, "training with several processes needs a folder: the parameters are in the workers");
  LaunchOptions launch;
  launch.workers = given.workers;
  std::istringstream agents(given.agents ? given.agents : "");
  for (std::string agent; std::getline(agents, agent, ',');)
    if (!agent.empty()) launch.agents.push_back(agent);
  if (given.listen) launch.listen = given.listen;
  if (given.secret) launch.secret = Secret::from_file(given.secret);
  launch.min_workers = std::max(1, given.min_workers);
  launch.session.out = out_of(given);
  if (given.resume) launch.session.resume = given.resume;
  launch.session.trainer.threads = threads;
  if (threads <= 0 && launch.agents.empty() && given.workers > 0)
    launch.session.trainer.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / given.workers);
  return launch;
}

// The phases of a job are runs that follow each other.
Json train_phases(const Job& job, LaunchOptions launch, const RunLog::Sink& sink, const std::atomic<bool>& stop) {
  if (!launch.listen.empty())
    misuse("perigee_job_train", "the phases of a job end with their workers", "workers that join by 'listen'", "workers or agents");
  PhasedRun run(job, launch.session, [&](const Job& phase, ClusterSessionOptions own, const RunLog::Sink& tell) {
    LaunchOptions of_phase = launch;
    of_phase.session = std::move(own);
    Launcher launcher(phase, std::move(of_phase), stop);
    launcher.session().add_sink(tell);
    return launcher.run();
  });
  run.add_sink(sink);
  return run.run();
}

RunLog::Sink sink_of(const perigee_train_options& given, std::atomic<bool>* stop) {
  return [given, stop](const Json& told) {
    Json event = told;
    if (const Json* text = event.find("text"); text && text->is_string()) event.set("text", advice_for(Voice::library, text->as_string()));
    if (given.event && given.event(given.user, event.dump().c_str()) != 0) *stop = true;
  };
}

}  // namespace

extern "C" {

perigee_status perigee_job_train(perigee_job* job, const perigee_train_options* options, char** end) noexcept {
  if (end) *end = nullptr;
  if (!job) return PERIGEE_USAGE;
  return guard(*job->context, job->message, [&] {
    const auto given = read_struct(options, "perigee_job_train");
    std::optional<Job> description;
    HostSources sources;
    {
      const std::lock_guard lock(job->mutex);
      description = job->job;
      sources = job->sources;
    }
    use_device(*job->context, &*description);
    const HostScope scope(sources);
    const int threads = given.threads > 0 ? given.threads : job->context->threads;
    std::atomic<bool> stop = false;
    if (in_cluster(given)) {
      const auto train = [&] {
        LaunchOptions launch = launch_options(given, threads);
        if (phase_count(*description) > 0) return train_phases(*description, std::move(launch), sink_of(given, &stop), stop);
        Launcher launcher(*description, std::move(launch), stop);
        launcher.session().add_sink(sink_of(given, &stop));
        return launcher.run();
      };
      const Json last = train();
      if (end) *end = copy_text(last.dump());
      return stop && last.find("stopped") ? PERIGEE_STOPPED : PERIGEE_OK;
    }
    SessionOptions session_options{.folder = given.folder != nullptr};
    session_options.trainer.threads = threads;
    warn_of_gpus_in_one_process(description->json(), description->where());
    session_options.trainer.use(choose_device(description->json(), description->where() + ": device"));
    session_options.out = out_of(given);
    if (given.resume) session_options.resume = given.resume;
    Session session(*description, std::move(session_options));
    session.add_sink(sink_of(given, &stop));
    const Json last = session.run(stop);
    if (end) *end = copy_text(last.dump());
    return stop && !session.trainer().finished() ? PERIGEE_STOPPED : PERIGEE_OK;
  });
}
}
