#include "src/run/run_log.h"

#include <cmath>
#include <filesystem>

#include "src/data/stored_arrays.h"
#include "src/run/log/tensorboard_log.h"
#include "src/train/device/device_memory.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kStepsBetweenEvents = 100;
constexpr double kSecondsBetweenEvents = 0.95;  // a little less than the promised second

double between(std::chrono::steady_clock::time_point a, std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

double rounded(double value, int digits) {
  const double scale = digits == 1 ? 10 : 1000;
  return std::round(value * scale) / scale;
}

void add_members(Json& event, const Json& more) {
  if (!more.is_object()) return;
  for (const auto& [key, value] : more.as_object()) event.set(key, value);
}

}  // namespace

Json scalar_figures(const Json& result) {
  Json figures = Json::object();
  if (result.is_object())
    for (const auto& [key, value] : result.as_object()) {
      if (value.is_number()) figures.set(key, value);
      if (!value.is_object()) continue;
      for (const auto& [name, figure] : value.as_object())  // of an evaluation beside the first: "roc.auc"
        if (figure.is_number()) figures.set(std::string(key).append(".").append(name), figure);
    }
  return figures;
}

RunFacts run_facts(Trainer& trainer) {
  std::error_code status;
  std::string device;
  for (const DeviceTaken& gpu : trainer.device_taken()) device += (device.empty() ? "" : ", ") + gpu.device;
  return {.name = trainer.job().name(),
          .data = trainer.train_source().traits().description,
          .data_folder = fs::absolute(trainer.job().folder(), status).lexically_normal().string(),
          .examples = trainer.train_source().size(),
          .planned = trainer.planned_examples(),
          .batch = trainer.batch(),
          .sub_batch = trainer.sub_batch(),
          .threads = trainer.threads(),
          .parameters = trainer.model().params().parameter_elements(),
          .memory_bytes = static_cast<int64_t>(trainer.memory_bytes()),
          .device = std::move(device)};
}

std::unique_ptr<RunFolder> open_run_folder(const Job& job, const std::string& out, const std::string& resume) {
  // A checkpoint lies in <run>/checkpoints/; a run that is continued goes on in its own folder.
  std::string earlier;
  if (!resume.empty()) {
    const fs::path path = fs::path(resume).lexically_normal();
    earlier = fs::is_directory(path) ? path.string() : path.parent_path().parent_path().string();
    if (!fs::exists(earlier + "/job.json")) earlier.clear();
  }
  const bool goes_on = !earlier.empty() && out.empty();
  auto folder = std::make_unique<RunFolder>(goes_on ? RunFolder::open(earlier) : RunFolder::create(job.name(), out));
  if (!Config(job.json(), job.where()).boolean("report", true)) folder->leave_out_page();
  if (!log_options(job).tensorboard) folder->leave_out_events();
  store_arrays(job.json(), job.folder(), folder->path());
  folder->write_text("job.json", with_relative_array_files(job.canonical()).dump(2) + "\n");
  return folder;
}

void RunLog::Sums::add(const StepReport& report) {
  loss += report.loss * static_cast<double>(report.examples);
  correct += report.accuracy * static_cast<double>(report.examples);
  examples += report.examples;
}

void RunLog::Sums::write(Json& event) const {
  if (examples == 0) return;
  event.set("loss", loss / static_cast<double>(examples));
  if (correct >= 0) event.set("accuracy", correct / static_cast<double>(examples));
}

RunLog::~RunLog() {
  if (!folder_ || !folder_->made() || begun_) return;
  const std::string path = folder_->path();
  folder_.reset();
  remove_started_run(path);
}

void RunLog::emit(const Json& event) {
  const Json* kind = event.find("event");
  begun_ |= kind && *kind != Json("error");
  if (folder_) folder_->log(event);
  for (const Sink& sink : sinks_) sink(event);
}

void RunLog::start(const Position& at, const Json& about, const std::string& resumed_from) {
  started_ = last_event_ = Clock::now();
  examples_before_ = at.examples;
  last_event_step_ = at.step;
  Json event = Json::object();
  event.set("event", "start");
  event.set("name", facts_.name);
  add_members(event, about);
  event.set("data", facts_.data);
  event.set("data_folder", facts_.data_folder);  // what its relative paths start from
  event.set("examples", facts_.examples);
  event.set("batch", facts_.batch);
  event.set("sub_batch", facts_.sub_batch);
  event.set("threads", facts_.threads);
  if (!facts_.device.empty()) event.set("device", facts_.device);
  event.set("parameters", facts_.parameters);
  if (facts_.planned > 0) event.set("epochs_planned", static_cast<double>(facts_.planned) / static_cast<double>(facts_.examples));
  event.set("memory_bytes", facts_.memory_bytes);
  if (folder_) event.set("folder", folder_->path());
  if (!resumed_from.empty()) {
    event.set("resumed_from", resumed_from);
    event.set("step", at.step);
  }
  event.set("version", PERIGEE_VERSION);
  emit(event);
}

double RunLog::seconds() const { return seconds_before_ + between(started_, Clock::now()); }
double RunLog::rounded_seconds(double seconds) { return rounded(seconds, 3); }

double RunLog::epochs_done(const Position& at) const { return static_cast<double>(at.examples) / static_cast<double>(facts_.examples); }

// The time that is left, at the speed of this run so far, with the evaluations to come.
double RunLog::remaining_seconds(const Position& at) const {
  const double trained = static_cast<double>(at.examples - examples_before_);
  const double left = static_cast<double>(facts_.planned - at.examples);
  const double training = between(started_, Clock::now()) - aside_seconds_;
  if (facts_.planned <= 0 || trained <= 0 || left < 0) return -1;
  const double epochs_left = std::ceil(left / static_cast<double>(facts_.examples));
  return left * training / trained + epochs_left * evaluation_seconds_;
}

void RunLog::step(const StepReport& report, const Position& at, bool due, const Json& more) {
  interval_.add(report);
  epoch_.add(report);
  skipped_steps_ = report.skipped_steps;
  const double interval = between(last_event_, Clock::now());
  const int64_t most = tell_every_ > 0 ? tell_every_ : kStepsBetweenEvents;
  if (!due && report.step - last_event_step_ < most && interval < kSecondsBetweenEvents) return;
  Json event = Json::object();
  event.set("event", "step");
  event.set("epoch", static_cast<int64_t>(report.epoch) + 1);
  event.set("step", report.step);
  interval_.write(event);
  event.set("learning_rate", report.learning_rate);
  if (report.evaluations > 0) event.set("evaluations", report.evaluations);
  if (!report.objectives.empty()) {
    Json losses = Json::object();
    for (const ObjectiveReport& each : report.objectives) losses.set(std::string(each.name), each.loss);
    event.set("losses", std::move(losses));
  }
  if (report.gradient_norm >= 0) event.set("gradient_norm", report.gradient_norm);
  if (report.loss_scale > 0) event.set("loss_scale", report.loss_scale), event.set("skipped_steps", report.skipped_steps);
  event.set("examples_per_s", rounded(static_cast<double>(interval_.examples) / std::max(interval, 1e-9), 1));
  event.set("epochs_done", epochs_done(at));
  if (facts_.planned > 0) event.set("progress", static_cast<double>(at.examples) / static_cast<double>(facts_.planned));
  event.set("seconds", rounded(seconds(), 3));
  if (const double left = remaining_seconds(at); left >= 0) event.set("eta_s", rounded(left, 1));
  add_members(event, more);
  emit(event);
  interval_ = {};
  last_event_ = Clock::now();
  last_event_step_ = report.step;
}

Json RunLog::epoch_event(int64_t epoch, const Position& at) {
  Json event = Json::object();
  event.set("event", "epoch");
  event.set("epoch", epoch);
  event.set("step", at.step);
  event.set("epochs_done", epochs_done(at));
  epoch_.write(event);
  epoch_ = {};
  return event;
}

void RunLog::set_aside(double seconds, double evaluation_seconds) {
  aside_seconds_ += seconds;
  evaluation_seconds_ = evaluation_seconds;
  last_event_ = Clock::now();
}

Json RunLog::end_event(const Position& at) const {
  Json event = Json::object();
  event.set("event", "end");
  event.set("epochs", facts_.examples > 0 ? at.examples / facts_.examples : 0);
  event.set("steps", at.step);
  if (skipped_steps_ > 0) event.set("skipped_steps", skipped_steps_);
  event.set("data", facts_.data);
  return event;
}

void RunLog::add_closing_figures(Json& event, const Position& at) const {
  const double trained = between(started_, Clock::now()) - aside_seconds_;
  event.set("examples_per_s", rounded(trained > 0 ? static_cast<double>(at.examples - examples_before_) / trained : 0, 1));
  event.set("seconds", rounded(seconds(), 3));
  if (folder_) event.set("folder", folder_->path());
}

void RunLog::save(Json& extra) const {
  extra.set("seconds", seconds());
  extra.set("epoch_loss", epoch_.loss);
  extra.set("epoch_correct", epoch_.correct);
  extra.set("epoch_examples", epoch_.examples);
}

void RunLog::restore(const Json& extra) {
  const auto number = [&](const char* key) {
    const Json* value = extra.find(key);
    return value && value->is_number() ? value->as_number() : 0;
  };
  seconds_before_ = number("seconds");
  epoch_ = {number("epoch_loss"), number("epoch_correct"), static_cast<int64_t>(number("epoch_examples"))};
}

}  // namespace perigee
