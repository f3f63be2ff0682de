#include "src/run/session.h"

#include <algorithm>
#include <filesystem>

#include "src/core/stopwatch.h"
#include "src/core/warning.h"
#include "src/data/table/examples/table_source.h"
#include "src/io/file.h"
#include "src/job/job_parts.h"
#include "src/model/evaluator.h"
#include "src/train/batch_statistics.h"
#include "src/train/run_details.h"
#include "src/train/target_check.h"

namespace perigee {

namespace fs = std::filesystem;

namespace {

// An error that came once all steps were made.
Error after_training(const Error& error, const std::string& model) {
  if (model.empty()) return error;
  Error::Parts parts = error.parts();
  parts.hint += (parts.hint.empty() ? "" : "; ") + std::string("the training is complete, and its model is ") + model +
                ": `perigee eval` judges it on other data";
  return Error(error.kind(), std::move(parts));
}

// Other precisions than float32 are made for GPUs: a CPU computes much of them by the reference kernels.
void warn_of_slow_precision(Trainer& trainer) {
  const Job& job = trainer.job();
  if (trainer.backend() != Backend::cpu || (!job.half() && job.precision() == Dtype::f32)) return;
  const std::shared_ptr<const Plan> plan = trainer.plans().plan(trainer.sub_batch());
  const auto slow = std::ranges::count_if(plan->steps(), [](const PlanStep& step) { return step.kernel->backend == Backend::ref; });
  if (slow == 0) return;
  const std::string name = job.json().find("precision")->as_string();
  const Error place = job.placed(Error(ErrorKind::model, {job.where() + ": precision", ""}));
  warn(place.parts().where + ": \"" + name + "\" has no fast kernels on a CPU: " + std::to_string(slow) + " of the " +
       std::to_string(plan->steps().size()) + " kernels of a step are plain loops, which often take 10 to 100 times as long; train with " +
       "precision = \"float32\"" + (job.half() ? ", or on a GPU" : ""));
}

// A run that has ended is resumed to train on: with more epochs than it was told.
void warn_of_no_rest(const Trainer& trainer, const std::string& resumed_from) {
  const Json* epochs = trainer.job().json().find("epochs");
  const int64_t made = epochs && epochs->is_int() && epochs->as_int() > 0 ? epochs->as_int() : 1;
  warn(resumed_from + ": nothing is left to train: the run has made all " + std::to_string(trainer.position().step) + " steps of its " +
       std::to_string(made) + (made == 1 ? " epoch" : " epochs") + "; it trains on with --epochs " + std::to_string(2 * made));
}

// The loss of a network that knows its training data by heart looks good; that of others does not say what is good.
void warn_of_useless_model(const Json& test, int64_t epochs) {
  constexpr int64_t kTrained = 10;
  const Json* r2 = test.find("r2");
  if (epochs < kTrained || !r2 || !r2->is_number() || r2->as_number() >= 0) return;
  char number[32];
  std::snprintf(number, sizeof number, "%.3g", r2->as_number());
  warn("on the test data the model is worse than their mean would be (r2 " + std::string(number) +
       "): look for features of many different texts, standardize the others, or stop earlier: early_stopping = { metric = "
       "\"validation.loss\", patience = 10 }");
}

// The part of the data that the page shows.
std::string shown_part(const Trainer& trainer) { return trainer.has_part("test") ? "test" : "validation"; }

}  // namespace

Session::Session(const Job& job, SessionOptions options)
    : options_(std::move(options)), job_(job), phases_(phase_count(job)), settings_(job) {
  std::optional<PhasePlace> place;
  if (phases_ > 0 && !options_.resume.empty()) place = stored_phase(options_.resume);
  enter_phase(place.value_or(PhasePlace{}));
  if (place_.phase > 0)
    numbers_.load(PhaseNumbers::file_in(fs::is_directory(options_.resume) ? options_.resume : run_of_file(options_.resume)));
  log_ = std::make_unique<RunLog>(run_facts(*trainer_));
  log_->set_planned(planned_of_all());
  log_->tell_every(options_.events_every);
  try {
    prepare();
    check_phases();
  } catch (const Error& error) {
    throw job.placed(error);
  }
  warn_of_slow_precision(*trainer_);
  if (options_.folder) open_folder();
  if (!options_.resume.empty()) resume();
}

// All that can be refused before the first step is looked at before there is a folder: the pretrained model, every part of the data, what is
// measured and watched.
void Session::prepare() {
  const Job& job = trainer_->job();
  const Json* pretrained = job.json().find("pretrained");
  if (options_.resume.empty() && pretrained && !pretrained->is_null()) {
    const Json description = pretrained->is_string() ? Json(Json::Object{{"model", *pretrained}}) : *pretrained;
    const Config config(description, job.where() + ": pretrained");
    apply_pretrained(*trainer_, config, job.folder());
    config.reject_unread();
  }
  if (const std::string line = line_of_targets(trainer_->train_source().traits().remarks); !line.empty())
    warn(job.placed(Error(ErrorKind::data, {job.where() + ": data", line})).what());
  for (const std::string& line : lines_of_classes(trainer_->shape(), trainer_->train_source()))
    warn(job.placed(Error(ErrorKind::data, {job.where() + ": loss", line})).what());
  const EvaluationTask on_training{.classes = trainer_->shape().spec().classes};
  judge_ = std::make_unique<EpochJudge>(job, [&](const std::string& part) -> std::optional<EvaluationTask> {
    if (part == "train") return on_training;
    const Evaluator* evaluator = trainer_->evaluator(part);
    return evaluator ? std::optional(evaluator->task()) : std::nullopt;
  });
}

std::unique_ptr<Trainer> Session::make_trainer(const Job& job) {
  constexpr uint32_t kProcess = 1;  // in the timeline
  if (!options_.trace.empty() && !trace_) {
    trace_ = std::make_unique<TraceFile>(options_.trace, TraceFile::Options{.round_name = "step"});
    trace_->name_process(kProcess, "perigee train " + job.name());
    trace_ring_.turn_on();
    trace_->follow(trace_ring_, kProcess);
    options_.trainer.trace = &trace_ring_;
  }
  return std::make_unique<Trainer>(job, options_.trainer);
}

// Where the time of this process went, as far as it was measured.
Json Session::time_table() const {
  Json table = Json::object();
  for (const TracePhase phase :
       {TracePhase::load, TracePhase::compute, TracePhase::exchange, TracePhase::update, TracePhase::evaluate, TracePhase::checkpoint})
    if (const double seconds = seconds_before_[static_cast<size_t>(phase)] + trainer_->times().seconds(phase);
        phase != TracePhase::exchange || seconds > 0)
      table.set(std::string(to_string(phase)) + "_s", seconds);
  return table;
}

void Session::open_folder() {
  log_->set_folder(open_run_folder(job_, options_.out, options_.resume));
  folder_path_ = log_->folder_path();
  if (TensorboardWriter* events = log_->folder()->events()) pictures_ = std::make_unique<TensorboardLog>(job_, *events);
  if (place_.phase > 0) numbers_.save(PhaseNumbers::file_in(folder_path_));
  open_checkpoints();
}

void Session::open_checkpoints() {
  const Job& job = trainer_->job();
  const Json* wanted = job.json().find("checkpoint");
  if (wanted && wanted->is_bool() && !wanted->as_bool()) return;
  static const Json kDefaults = Json::object();
  const Config config(wanted && wanted->is_object() ? *wanted : kDefaults, job.where() + ": checkpoint");
  config.string("best", "");  // the judge's
  checkpoints_ = std::make_unique<CheckpointHook>(config, log_->folder()->checkpoints());
  config.reject_unread();
  checkpoints_->end_with_save();
}

// The page shows this beside the log. It is written at once, so that a run which is killed has it too.
void Session::begin_details() {
  RunFolder* folder = log_->folder();
  if (!folder) return;
  details_ = run_details(*trainer_);
  folder->write_text("details.json", details_.dump() + "\n");
  if (Evaluator* evaluator = trainer_->evaluator(shown_part(*trainer_))) evaluator->keep_details();
}

void Session::finish_details() {
  RunFolder* folder = log_->folder();
  const std::string part = shown_part(*trainer_);
  Evaluator* evaluator = folder ? trainer_->evaluator(part) : nullptr;
  Json found = evaluator ? evaluator->details() : Json();
  if (found.is_null()) return;
  if (part != "test") found.set("report", last_validation_);
  details_.set("evaluation", std::move(found));
  folder->write_text("details.json", details_.dump() + "\n");
}

void Session::resume() {
  Json extra;
  if (fs::is_directory(options_.resume)) {
    CheckpointFolder folder(options_.resume + "/checkpoints", 1);
    resumed_from_ = folder.resume(*trainer_, &extra);
    if (resumed_from_.empty())
      throw Error(ErrorKind::usage, {.where = options_.resume,
                                     .what = "this run has no checkpoint to resume from",
                                     .hint = "leave out --resume, and delete this folder or choose another with --out"});
  } else {
    if (!file_exists(options_.resume))
      throw Error(ErrorKind::usage,
                  {options_.resume, "there is no run or checkpoint of this name", "", "a run folder or a file of its checkpoints"});
    extra = load_checkpoint(*trainer_, options_.resume);
    resumed_from_ = options_.resume;
  }
  if (trainer_->finished() && phases_ == 0) warn_of_no_rest(*trainer_, resumed_from_);
  if (!extra.is_object()) return;
  log_->restore(extra);
  if (const Json* state = extra.find("early_stopping"); state && state->is_object()) judge_->restore(*state);
  if (const Json* changes = extra.find("settings"))
    for (const RunSettings::Change& change : settings_.changes_of(*changes)) apply_option(change.option, change.value);
  trainer_->set_rate_factor(judge_->rate_factor());
}

void Session::on_step(Trainer& trainer, const StepReport& report) {
  log_->step(report, trainer.position(), report.epoch_ends || trainer.finished());
  if (stop_asked()) stop_ = true;
  if (!judge_->stops_early()) return;
  stop_reason_ = judge_->after_step(report.loss, log_->seconds());
  if (!stop_reason_.empty()) stop_ = true;
}

Json Session::evaluate(const std::string& part) {
  const Json result = trainer_->evaluate(part, outside_stop_);
  if (part == "test" && !result.is_null()) {
    last_test_ = result;
    last_test_step_ = trainer_->position().step;
  }
  if (part == "validation" && !result.is_null()) last_validation_ = result;
  return result;
}

void Session::on_epoch(Trainer& trainer, uint64_t epoch) {
  const Stopwatch watch;
  const int64_t number = static_cast<int64_t>(epoch) + 1;
  Json event = log_->epoch_event(number, trainer.position());
  if (phases_ > 0) event.set("phase", static_cast<int64_t>(place_.phase) + 1);
  Json last;
  for (const std::string& part : judge_->parts()) {
    Json result = evaluate(part);
    if (!result.is_null()) event.set(part, scalar_figures(result)), last = std::move(result);
  }
  const double evaluation = watch.seconds();
  event.set("seconds", RunLog::rounded_seconds(log_->seconds()));
  if (stop_asked()) stop_ = true;
  log_->emit(event);
  judge_epoch(number - static_cast<int64_t>(trainer.origin().epoch), event);
  update_extra();
  if (pictures_) pictures_->after_epoch(trainer, last, log_->seconds());
  log_->set_aside(watch.seconds(), evaluation);
}

void Session::judge_epoch(int64_t epoch, const Json& event) {
  if (judge_->stops_early() && stop_) return;
  stop_reason_ = judge_->after_epoch(epoch, event, log_->seconds());
  if (!stop_reason_.empty()) stop_ = true;
  if (judge_->rate_changed()) {
    trainer_->set_rate_factor(judge_->rate_factor());
    log_->emit(Json(Json::Object{{"event", "set"}, {"step", trainer_->position().step}, {"rate_factor", judge_->rate_factor()}}));
  }
  if (checkpoints_ && judge_->is_best(epoch)) checkpoints_->keep_best();
}

void Session::update_extra() {
  if (!checkpoints_) return;
  Json extra = Json::object();
  log_->save(extra);
  extra.set("early_stopping", judge_->state());
  if (phases_ > 0) extra.set("phase", place_.to_json());
  if (!settings_.changes().empty()) extra.set("settings", settings_.state());
  checkpoints_->set_extra(std::move(extra));
}

Json Session::run(const std::atomic<bool>& stop) {
  outside_stop_ = &stop;
  log_->start(trainer_->position(), options_.about, resumed_from_);
  for (const RunSettings::Change& change : settings_.changes()) tell_option(change.option, change.value, true);
  begin_details();
  if (pictures_) pictures_->begin(*trainer_);
  if (phases_ > 0) tell_phase();
  try {
    for (;;) {
      update_extra();
      trainer_->add_hook(this);
      if (checkpoints_) trainer_->add_hook(checkpoints_.get());
      if (options_.hook) trainer_->add_hook(options_.hook);
      stop_ = stop_asked();
      const bool whole = trainer_->run(stop_);
      const bool interrupted = !whole && stop_reason_.empty();
      if (interrupted || !goes_on()) return finish(interrupted);
      next_phase();
    }
  } catch (const Error& error) {
    if (checkpoints_) checkpoints_->settle();
    log_->emit(Json(Json::Object{{"event", "error"}, {"step", trainer_->position().step}, {"text", error.what()}}));
    if (log_->folder()) log_->folder()->curves(), log_->folder()->page();
    throw;
  }
}

void Session::set_option(const std::string& option, const Json& value) {
  const std::string resolved = settings_.resolve(option);
  apply_option(resolved, value);
  update_extra();
  tell_option(resolved, value, false);
}

void Session::apply_option(const std::string& resolved, const Json& value) {
  const Json job = settings_.with(resolved, value);
  const std::string section = resolved.substr(0, resolved.find('.')), where = trainer_->job().where() + ": " + section;
  if (section == "early_stopping") {
    judge_->change(Config(*job.find(section), where));
  } else if (section == "checkpoint") {
    if (!checkpoints_)
      throw Error(ErrorKind::usage,
                  {.where = "run." + resolved, .what = "this run keeps no checkpoints", .hint = "start it with a run folder"});
    checkpoints_->change(Config(*job.find(section), where));
  } else if (resolved == "data.batch") {
    trainer_->change_batch(value.is_int() ? value.as_int() : 32);
  } else if (resolved == "epochs" || resolved == "steps") {
    trainer_->change_length(job);
  } else if (section == "loss" || section == "terms") {
    Json terms = settings_.changed_terms();
    terms.set(resolved, value);
    trainer_->change_factors(terms);
  } else {
    trainer_->change_optimizer(job);
  }
  log_->set_planned(planned_of_all());
  settings_.keep(resolved, value);
}

// The learning rate has its own member besides, as in the events of steps.
void Session::tell_option(const std::string& resolved, const Json& value, bool resumed) {
  Json event = Json(Json::Object{{"event", "set"}, {"step", trainer_->position().step}, {"option", resolved}, {"value", value}});
  if (resolved == "optimizer.lr") event.set("learning_rate", value);
  if (resumed) event.set("resumed", true);
  log_->emit(event);
}

void Session::tell(const Json& event) { log_->emit(event); }

std::string Session::checkpoint() {
  if (!checkpoints_)
    throw Error(ErrorKind::usage, {trainer_->job().where(), "this run keeps no checkpoints", "", "", "leave checkpoint = false away"});
  update_extra();
  return checkpoints_->save(*trainer_);
}

void Session::set_aside(double seconds) { log_->set_aside(seconds, 0); }

// Early stopping keeps the best epoch, not the last one. Returns what to tell about it.
std::string Session::model_of_best() {
  if (checkpoints_ && judge_->prefers_earlier()) checkpoints_->settle();
  const std::string best = checkpoints_ && judge_->prefers_earlier() ? log_->folder()->checkpoints() + "/best.safetensors" : "";
  if (best.empty() || !file_exists(best)) return "";
  load_checkpoint(*trainer_, best);
  last_test_step_ = -1;
  return "epoch " + std::to_string(static_cast<int64_t>(trainer_->origin().epoch) + judge_->best_epoch());
}

// The model's file; empty: there is none.
std::string Session::save_trained() {
  if (!log_->folder()) return "";
  try {
    save_model(*trainer_, log_->folder()->model_file());
    return log_->folder()->model_file();
  } catch (const Error& error) {
    warn(std::string("the model could not be saved: ") + error.what());
    return "";
  }
}

// The last evaluation, the report and the model. The model is saved even where the evaluation fails; that failure is returned.
std::optional<Error> Session::finish_model(Json& event) {
  RunFolder* folder = log_->folder();
  const std::string best = model_of_best();
  if (!best.empty()) event.set("model_of", best);
  try {
    if (refresh_statistics(*trainer_, outside_stop_)) last_test_step_ = -1;
  } catch (const Error& error) {  // of data that can no longer be read; the model must not be lost by it
    warn(std::string("swa: batch norm keeps the mean of the steps' statistics: ") + error.what());
  }
  const bool fresh = last_test_step_ == trainer_->position().step;
  Json test;
  std::optional<Error> failure;
  try {
    test = fresh ? last_test_ : evaluate("test");
  } catch (const Error& error) {
    failure = error;
  }
  if (!test.is_null()) {
    event.set("test", scalar_figures(test));
    if (const Json* data = test.find("data")) event.set("test_data", *data);
    warn_of_useless_model(test, static_cast<int64_t>(trainer_->position().epoch));
    if (folder) folder->report(test);
  }
  if (!failure) finish_details();
  const std::string model = save_trained();
  if (!model.empty()) event.set("model", model);
  if (!failure) return {};
  return after_training(*failure, model);
}

Json Session::finish(bool interrupted) {
  Trainer& trainer = *trainer_;
  RunFolder* folder = log_->folder();
  const Position reached = trainer.position();
  Json closing = Json::object();  // before what follows takes its time
  log_->add_closing_figures(closing, reached);
  Json event = log_->end_event(reached);
  if (interrupted) event.set("stopped", "interrupted");
  else if (!stop_reason_.empty()) event.set("stopped", stop_reason_);
  if (checkpoints_) {  // it is written while the rest is done
    update_extra();
    checkpoints_->begin_save(trainer);
  }
  if (pictures_) pictures_->end(trainer);
  std::optional<Error> failure;
  if (!interrupted) failure = finish_model(event);
  if (checkpoints_)
    if (const std::string checkpoint = checkpoints_->end_save(trainer); !checkpoint.empty()) event.set("checkpoint", checkpoint);
  if (failure) throw *failure;
  event.set("examples_per_s", *closing.find("examples_per_s"));
  event.set("time", time_table());
  if (trace_) event.set("trace", trace_->path());
  event.set("seconds", RunLog::rounded_seconds(log_->seconds()));
  if (folder) event.set("folder", folder_path_);
  if (folder) folder->curves();
  log_->emit(event);
  if (folder) folder->page();
  return event;
}

}  // namespace perigee
