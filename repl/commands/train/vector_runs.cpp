#include "repl/commands/train/vector_runs.h"

#include <cstdio>

#include "repl/display/display.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/file.h"
#include "src/run/run_folder.h"
#include "src/run/session.h"
#include "src/run/vectors/stored_vectors.h"
#include "src/vectors/jobs/vector_job.h"

namespace perigee {
namespace {

constexpr const char* kWhere = "perigee vectors train";

void tell_scaled_rate(const Json& given, const VectorOptions& options, int64_t workers) {
  if (workers > 1 && !given.find("lr"))
    std::fprintf(stderr, "the learning rate begins with %g: %g for each of %lld workers, whose mean counts; --lr gives another\n",
                 options.lr * static_cast<double>(workers), options.lr, static_cast<long long>(workers));
}

// A run that goes on has its job; the options given now are those of the length alone.
Job job_of(const Json& given, const VectorOptions& options, const VectorRun& run) {
  if (!run.resume.empty()) {
    Job job = Job::load(run.resume + "/job.json");
    if (given.find("epochs")) job.set("epochs", std::to_string(options.epochs));
    return job;
  }
  const VectorCorpus corpus(options, &stop_requested());
  Job job(vector_job(given, options, corpus, run.cluster.workers), kWhere);
  if (!run.averaging.empty()) job.set("averaging", run.averaging);
  tell_scaled_rate(given, options, run.cluster.workers);
  return job;
}

}  // namespace

std::unique_ptr<TrainedVectors> train_vectors_as_job(const Json& given, const VectorOptions& options, const VectorRun& run, bool* stopped) {
  const std::unique_ptr<Display> display = make_display(DisplayKind::automatic);
  set_warning_handler([&](const std::string& text) { display->warning(text); });
  struct Restore {
    ~Restore() { set_warning_handler({}); }
  } restore;
  const Job job = job_of(given, options, run);
  TrainerOptions trainer;
  if (given.find("threads")) trainer.threads = static_cast<int>(options.threads);
  std::string folder;
  const auto show = [&](const Json& event, const std::string& in) {
    folder = in;
    display->event(event);
  };
  Json end;
  if (in_cluster(run.cluster)) {
    end = train_in_cluster(job, run.cluster, nullptr, {.trainer = trainer, .out = run.run, .resume = run.resume}, show);
  } else {
    Session session(job, {.trainer = trainer, .out = run.run, .resume = run.resume});
    session.add_sink([&](const Json& event) { show(event, session.folder()); });
    end = session.run(stop_requested());
  }
  const Json* reason = end.find("stopped");
  *stopped = reason && *reason == Json("interrupted");
  return stored_vectors(folder);
}

void write_vector_job(const std::string& path, const Json& given, const VectorOptions& options, int64_t workers) {
  if (!path.ends_with(".json"))
    throw Error(ErrorKind::usage,
                {.where = "perigee vectors job", .what = "the job has no place to go", .got = path, .expected = "--out JOB.json"});
  const VectorCorpus corpus(options, &stop_requested());
  write_file(path, as_bytes(vector_job(given, options, corpus, workers).dump(2) + "\n"));
  tell_scaled_rate(given, options, workers);
}

}  // namespace perigee
