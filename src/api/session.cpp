// perigee.h: whole runs.
#include "src/train/session.h"

#include "src/api/handles.h"
#include "src/data/sources/host.h"

using namespace perigee;

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
    const HostScope scope(sources);
    SessionOptions session_options{.folder = given.folder != nullptr};
    session_options.trainer.threads = given.threads > 0 ? given.threads : job->context->threads;
    if (given.folder) session_options.out = given.folder;
    if (given.resume) session_options.resume = given.resume;
    Session session(*description, std::move(session_options));
    std::atomic<bool> stop = false;
    if (given.event)
      session.add_sink([&](const Json& event) {
        if (given.event(given.user, event.dump().c_str()) != 0) stop = true;
      });
    const Json last = session.run(stop);
    if (end) *end = copy_text(last.dump());
    return stop && !session.trainer().finished() ? PERIGEE_STOPPED : PERIGEE_OK;
  });
}
}
