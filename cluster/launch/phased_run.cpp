#include "cluster/launch/phased_run.h"

#include <filesystem>

#include "src/core/warning.h"
#include "src/io/file.h"
#include "src/job/job_parts.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResult = "/result.json";  // of a phase that is finished
constexpr size_t kMostResult = 1 << 26;

double number_at(const Json& event, const char* key) {
  const Json* value = event.find(key);
  return value && value->is_number() ? value->as_number() : 0;
}

void add_to(Json& event, const char* key, double more) {
  const Json* value = event.find(key);
  if (!value || !value->is_number()) return;
  if (value->is_int()) event.set(key, value->as_int() + static_cast<int64_t>(more));
  else event.set(key, value->as_number() + more);
}

bool is_kind(const Json& event, const char* kind) {
  const Json* found = event.find("event");
  return found && *found == Json(kind);
}

bool interrupted(const Json& end) {
  const Json* why = end.find("stopped");
  return why && *why == Json("interrupted");
}

}  // namespace

void PhasedRun::Sums::add(const Json& end) {
  steps += number_at(end, "steps");
  epochs += number_at(end, "epochs");
  seconds += number_at(end, "seconds");
}

PhasedRun::PhasedRun(const Job& job, ClusterSessionOptions options, Train train)
    : job_(job), phases_(phase_count(job)), options_(std::move(options)), train_(std::move(train)) {
  try {
    PhaseShapes shapes;
    for (size_t i = 0; i < phases_; ++i) {
      const TrainingSetup setup(phase_job(job_, i), options_.trainer);
      shapes.follow(setup.model->params(), setup.job.where());
    }
  } catch (const Error& error) {
    throw job_.placed(error);
  }
  folder_ = open_run_folder(job_, options_.out, options_.resume);
}

void PhasedRun::tell(const Json& event) {
  folder_->log(event);
  for (const RunLog::Sink& sink : sinks_) sink(event);
}

// Its own keys, and the numbers of the phases before where it has the same names.
Job PhasedRun::job_of(size_t phase) const {
  const Job own = phase_job(job_, phase);
  if (phase == 0) return own;
  Json json = own.json();
  json.set("pretrained", Json(Json::Object{{"model", fs::absolute(PhaseNumbers::file_in(folder())).string()}, {"partial", true}}));
  return Job(std::move(json), own.where(), own.folder());
}

Json PhasedRun::run() {
  for (size_t phase = 0; phase < phases_; ++phase) {
    if (take_over(phase) && phase + 1 < phases_) continue;
    const Json end = train(phase);
    if (interrupted(end) || phase + 1 == phases_) return finish(phase, end);
    keep(phase, end);
  }
  return {};
}

// A phase that was finished before.
bool PhasedRun::take_over(size_t phase) {
  const std::string file = folder_of(phase) + kResult;
  if (!file_exists(file)) return false;
  before_.add(Json::parse(as_text(read_file(file, kMostResult)), file));
  numbers_.load(folder_of(phase) + "/model.safetensors");
  return true;
}

void PhasedRun::keep(size_t phase, const Json& end) {
  before_.add(end);
  numbers_.load(folder_of(phase) + "/model.safetensors");
  numbers_.save(PhaseNumbers::file_in(folder()));
  write_file(folder_of(phase) + kResult, as_bytes(end.dump(2) + "\n"));
}

Json PhasedRun::train(size_t phase) {
  const std::string own = folder_of(phase);
  const bool begun = can_resume(own);
  std::error_code status;
  if (!begun) fs::remove_all(own, status);  // of a start that failed
  ClusterSessionOptions options = options_;
  options.out = begun ? "" : own;
  options.resume = begun ? own : "";
  if (phase > 0 && !begun) numbers_.save(PhaseNumbers::file_in(folder()));
  return train_(job_of(phase), std::move(options), [this, phase](const Json& event) { on_event(phase, event); });
}

// As if it were one run: steps, epochs and seconds count on.
Json PhasedRun::counted_on(const Json& event) const {
  Json told = event;
  for (const char* key : {"step", "steps"}) add_to(told, key, before_.steps);
  for (const char* key : {"epoch", "epochs", "epochs_done"}) add_to(told, key, before_.epochs);
  add_to(told, "seconds", before_.seconds);
  if (told.find("folder")) told.set("folder", folder());
  return told;
}

double PhasedRun::progress(size_t phase, double own) const {
  double done = 0, all = 0;
  for (size_t i = 0; i < phases_; ++i) {
    const auto planned = static_cast<double>(examples_planned(phase_job(job_, i), examples_));
    all += planned;
    done += i < phase ? planned : i == phase ? planned * own : 0;
  }
  return all > 0 ? done / all : 0;
}

void PhasedRun::on_event(size_t phase, const Json& event) {
  if (is_kind(event, "end")) return;  // told when its folder has everything
  Json told = counted_on(event);
  if (is_kind(event, "start")) {
    examples_ = std::max<int64_t>(1, static_cast<int64_t>(number_at(event, "examples")));
    told.set("name", job_.name());
    double planned = 0;
    for (size_t i = 0; i < phases_; ++i) planned += static_cast<double>(examples_planned(phase_job(job_, i), examples_));
    told.set("epochs_planned", planned / static_cast<double>(examples_));
    if (!started_) tell(told);
    started_ = true;
    return tell_phase(phase, event);
  }
  if (is_kind(event, "epoch")) told.set("phase", static_cast<int64_t>(phase) + 1);
  if (told.find("progress")) told.set("progress", progress(phase, number_at(event, "progress")));
  if (phase + 1 < phases_) told.erase("eta_s");  // it is that of the phase
  tell(told);
}

void PhasedRun::tell_phase(size_t phase, const Json& start) {
  tell(Json(Json::Object{{"event", "phase"},
                         {"phase", static_cast<int64_t>(phase) + 1},
                         {"of", static_cast<int64_t>(phases_)},
                         {"name", phase_name(job_, phase)},
                         {"step", static_cast<int64_t>(before_.steps + number_at(start, "step"))},
                         {"epochs_done", static_cast<int64_t>(before_.epochs)},
                         {"parameters", static_cast<int64_t>(number_at(start, "parameters"))}}));
}

// The last phase's results are those of the run.
Json PhasedRun::finish(size_t phase, const Json& end) {
  Json told = counted_on(end);
  if (!interrupted(end)) {
    for (const char* name : {"/model.safetensors", "/report.json", "/report.txt", "/details.json"}) {
      std::error_code status;
      const std::string from = folder_of(phase) + name, to = folder() + name;
      if (!file_exists(from)) continue;
      fs::copy_file(from, to + ".new", fs::copy_options::overwrite_existing, status);
      if (!status) fs::rename(to + ".new", to, status);
      if (status) warn(to + " could not be written: " + status.message());
    }
    if (told.find("model")) told.set("model", folder() + "/model.safetensors");
  }
  folder_->curves();
  tell(told);
  folder_->page();
  return told;
}

}  // namespace perigee
