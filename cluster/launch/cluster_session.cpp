#include "cluster/launch/cluster_session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "src/core/stopwatch.h"
#include "src/core/warning.h"
#include "src/model/evaluator.h"

namespace perigee {
namespace {

constexpr double kFirstSeconds = 5;  // from the start to a first checkpoint, unless the job's schedule is faster
constexpr size_t kMostJudged = 64;   // epochs to which the judge can go back

constexpr uint32_t kCoordinatorProcess = 0;  // in the timeline; workers have their ids
constexpr uint8_t kRoundsRow = 1, kFormingRow = 2, kEvaluationRow = 3;

}  // namespace

ClusterSession::ClusterSession(const Job& job, ClusterSessionOptions options, const std::atomic<bool>& stop, Defer defer)
    : options_(std::move(options)),
      outside_stop_(stop),
      defer_(std::move(defer)),
      job_(job, options_.trainer),
      log_(job_.facts),
      judge_(job_.job, [this](const std::string& part) { return job_.task_of(part); }),
      faults_([this](const Json& event) { tell_event(event); }) {
  if (!options_.resume.empty()) resume();
  open_trace();
  open_folder();
}

ClusterSession::ClusterSession(ClusterJob job, ClusterSessionOptions options, const std::atomic<bool>& stop, Defer defer, uint64_t job_id,
                               const Inheritance& inheritance, const std::string& from)
    : options_(std::move(options)),
      outside_stop_(stop),
      defer_(std::move(defer)),
      job_(std::move(job)),
      log_(job_.facts),
      judge_(job_.job, [this](const std::string& part) { return job_.task_of(part); }),
      faults_([this](const Json& event) { tell_event(event); }),
      job_id_(job_id) {
  open_folder();
  log_.keep_folder();  // the ledger in it may be the only one
  inherit(inheritance);
  resumed_from_ = "the coordinator at " + from;
}

ClusterSession::~ClusterSession() {
  if (writing_.valid()) writing_.wait();
}

void ClusterSession::open_folder() {
  log_.set_folder(open_run_folder(job_.job, options_.out, options_.resume));
  folder_path_ = log_.folder_path();
  ledger_ = std::make_unique<FileLedger>(folder_path_ + "/ledger");
  read_identity();
  const Json* wanted = job_.job.json().find("checkpoint");
  if (wanted && wanted->is_bool() && !wanted->as_bool()) return;
  static const Json kDefaults = Json::object();
  const Config config(wanted && wanted->is_object() ? *wanted : kDefaults, job_.job.where() + ": checkpoint");
  config.string("best", "");  // the judge's
  schedule_ = std::make_unique<CheckpointSchedule>(config);
  config.reject_unread();
  checkpoints_ = std::make_unique<CheckpointFolder>(log_.folder()->checkpoints(), schedule_->keep);
}

CoordinatorOptions ClusterSession::coordinator_options() const {
  CoordinatorOptions options;
  options.job = with_array_files(job_.job.canonical(), folder_path_).dump();  // workers open what the run folder holds
  options.folder = job_.facts.data_folder;
  options.tuning = job_.tuning;
  options.policy = job_.policy;
  options.examples = job_.facts.examples;
  options.planned = job_.facts.planned;
  options.batch = job_.facts.batch;
  options.global_batch = job_.global_batch;
  options.shards = job_.shards;
  options.streams = job_.streams;
  options.threads = static_cast<int>(job_.facts.threads);
  options.data = job_.data_prints;
  // Partitions are known by their hashes; what is around them the first worker sees.
  options.fingerprint = job_.data_prints.empty() ? 0 : fingerprint_of(job_.data_prints);
  if (job_.served) options.sources = job_.served->manifest(), options.partitions = job_.served->partitions();
  options.trace = trace_ != nullptr;
  add_settings(&options);
  options.resume_round = resume_round_;
  options.resume_image = resume_image_;
  return options;
}

double ClusterSession::now_s() const { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Position ClusterSession::position() const {
  const int64_t examples = coordinator_ ? coordinator_->examples_done() : 0;
  const int64_t size = job_.facts.examples;
  return {.epoch = static_cast<uint64_t>(examples / size),
          .position = examples % size,
          .step = coordinator_ ? coordinator_->round() + 1 : 0,
          .examples = examples};
}

void ClusterSession::start(Coordinator& coordinator) {
  coordinator_ = &coordinator;
  coordinator.start();  // reads the ledger, so that the position is known
  Json about = options_.about;
  if (!about.is_object()) about = Json::object();
  about.set("averaging", job_.policy.to_json());
  coordinator.describe("name", job_.facts.name);
  coordinator.describe("folder", folder_path_);
  last_checkpoint_round_ = coordinator.round();
  last_checkpoint_s_ = last_workers_s_ = now_s();
  log_.folder()->write_text("details.json", job_.details.dump() + "\n");
  if (judge_.rate_factor() != 1) tell_rate();
  recall_link();
  log_.start(position(), about, resumed_from_);
}

void ClusterSession::tell(const Json& event) { log_.emit(event); }
void ClusterSession::on_process_end(const ProcessEnd& end) { faults_.ended(end, now_s()); }
// With both clocks: the monotonic one to measure by, the wall's for people and other machines' logs.
void ClusterSession::on_event(const Json& event) {
  Json told = event;
  told.set("monotonic_s", now_s());
  told.set("time_s", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  const std::string kind = event.find("event")->as_string();
  if (kind == "rounds_voided") on_voided();
  if (kind == "paused") paused_since_s_ = now_s();
  else if (kind == "resumed" && paused_since_s_ > 0) log_.set_aside(now_s() - std::exchange(paused_since_s_, 0), 0);
  faults_.event(told, now_s());
}

// Like the stop by a signal, a stop takes hold at the next tick.
std::string ClusterSession::on_asked(Asked what) {
  if (what == Asked::stop) return stop_asked_ = true, "";
  if (!checkpoints_) return "this run keeps no checkpoints: checkpoint = false";
  if (phase_ == Phase::ending || phase_ == Phase::over) return "the run ends, with one";
  if (!kept_.empty()) return "";  // one is about to be written
  if (coordinator_->workers().empty()) return "no worker is there that could send one";
  kept_.push_back(Keep::scheduled);
  if (phase_ != Phase::evaluating) defer_([this] { keep_next(); });  // else before training goes on
  return "";
}

// ---- the timeline ----

void ClusterSession::open_trace() {
  if (options_.trace.empty()) return;
  trace_ = std::make_unique<TraceFile>(options_.trace);
  trace_->name_process(kCoordinatorProcess, "coordinator");
  trace_->name_row(kCoordinatorProcess, kRoundsRow, "rounds");
  trace_->name_row(kCoordinatorProcess, kFormingRow, "forming");
  trace_->name_row(kCoordinatorProcess, kEvaluationRow, "evaluation");
}

// Once its root cause is known; in the timeline at the moment of which it tells.
void ClusterSession::tell_event(const Json& event) {
  log_.emit(event);
  if (!trace_) return;
  const Json *name = event.find("event"), *when = event.find("monotonic_s");
  const uint64_t at = when && when->is_number() ? static_cast<uint64_t>(when->as_number() * 1e9) : monotonic_ns();
  trace_->add(kCoordinatorProcess, kFormingRow, name && name->is_string() ? name->as_string() : "event", at, at, event);
}

void ClusterSession::on_trace(const WorkerTrace& trace) {
  if (!trace_) return;
  const uint64_t now = monotonic_ns();
  const auto note = [&](const char* name, Json::Object args) {
    args.insert(args.begin(), {"worker", trace.name});
    trace_->add(trace.id, kLoopRow, name, now, now, Json(std::move(args)));
  };
  if (traced_.insert(trace.id).second) trace_->name_process(trace.id, trace.name);
  if (trace.clock_moved)
    note("clock_offset",
         {{"offset_us", static_cast<double>(trace.offset_ns) * 1e-3}, {"error_us", static_cast<double>(trace.error_ns) * 1e-3}});
  if (trace.dropped > 0) note("dropped", {{"spans", static_cast<int64_t>(trace.dropped)}});
  trace_->add(trace.id, trace.offset_ns, trace.spans);
}

void ClusterSession::on_span(const char* name, uint64_t begin_ns, uint64_t end_ns, const Json& args) {
  const std::string_view what = name;
  const uint8_t row = what == "forming" ? kFormingRow : what == "evaluation" ? kEvaluationRow : kRoundsRow;
  if (trace_) trace_->add(kCoordinatorProcess, row, name, begin_ns, end_ns, args);
}

// ---- rounds ----

void ClusterSession::on_round(int64_t round, uint64_t generation, int64_t examples_done, int workers, const Figures& figures,
                              int64_t examples) {
  const int64_t size = job_.facts.examples;
  const double count = static_cast<double>(std::max<int64_t>(1, examples));
  const StepReport report{.step = round + 1,
                          .epoch = static_cast<uint64_t>(std::max<int64_t>(0, examples_done - 1) / size),
                          .examples = examples,
                          .loss = figures.loss_sum / count,
                          .accuracy = figures.correct < 0 ? -1 : figures.correct / count,
                          .learning_rate = figures.learning_rate};
  totals_.load_s += figures.load_s;
  totals_.compute_s += figures.compute_s;
  totals_.encode_s += figures.encode_s;
  totals_.wait_s += figures.wait_s;
  totals_.transfer_s += figures.transfer_s;
  totals_.apply_s += figures.apply_s;
  totals_.bytes_up += figures.bytes_up;
  totals_.bytes_down += figures.bytes_down;
  totals_.bytes_across += figures.bytes_across;
  watch_link(figures, workers, examples);
  most_workers_ = std::max(most_workers_, workers);
  Json more = Json(Json::Object{{"workers", workers}, {"generation", static_cast<int64_t>(generation)}});
  if (figures.residual_square >= 0) more.set("residual_norm", std::sqrt(figures.residual_square));  // of all workers together
  if (const RoundView view = coordinator_->round_view(); view.every > 0) {
    more.set("every", view.every);
    if (view.utilisation >= 0) more.set("utilisation", std::round(view.utilisation * 1e3) / 1e3);
    if (view.divergence >= 0) more.set("divergence", std::round(view.divergence * 1e3) / 1e3);
  }
  const bool formed_anew = std::exchange(generation_, generation) != generation;  // shows when training went on after a fault
  if (formed_anew) more.set("monotonic_s", now_s());
  log_.step(report, position(), formed_anew || examples_done % size == 0 || examples_done == job_.facts.planned, more);
  if (phase_ != Phase::training) return;
  if (const std::string reason = judge_.after_step(report.loss, log_.seconds()); !reason.empty())
    return defer_([this, reason] { finish(reason); });
  // Until there is one, a run that is lost is lost whole.
  const bool first =
      schedule_ && schedule_->any() && !resume_image_ && checkpoint_file_.empty() && now_s() - last_checkpoint_s_ >= kFirstSeconds;
  const bool due = first || (schedule_ && schedule_->due_after_step(last_checkpoint_round_ + 1, round + 1, now_s() - last_checkpoint_s_));
  if (!due || image_request_ != 0 || writing_.valid() || !kept_.empty()) return;
  kept_.push_back(Keep::scheduled);
  keep_next();
}

// ---- the end of an epoch: evaluate, judge, keep, go on ----

void ClusterSession::on_epoch(uint64_t epoch) {
  if (phase_ != Phase::training) return;
  phase_ = Phase::evaluating;
  phase_since_s_ = now_s();
  epoch_ = static_cast<int64_t>(epoch) + 1;
  judged_before_.push_back({epoch_, judge_.state()});
  if (judged_before_.size() > kMostJudged) judged_before_.pop_front();
  epoch_event_ = log_.epoch_event(epoch_, position());
  parts_.assign(judge_.parts().begin(), judge_.parts().end());
  defer_([this] { evaluate_next(); });
}

void ClusterSession::evaluate_next() {
  if (phase_ == Phase::evaluating && parts_.empty()) return judge_epoch();
  if (phase_ == Phase::ending && parts_.empty()) return keep_next();
  if (phase_ == Phase::evaluating || phase_ == Phase::ending)
    coordinator_->request_evaluation(parts_.front(), job_.parts.at(parts_.front()).examples, job_.parts.at(parts_.front()).in_order);
}

void ClusterSession::on_evaluated(const std::string& part, const std::vector<std::string>& states) {
  if (parts_.empty() || part != parts_.front() || phase_ == Phase::over) return;
  parts_.pop_front();
  try {
    std::vector<Json> parsed;
    for (const std::string& state : states) parsed.push_back(Json::parse(state, "a worker's evaluation"));
    const ClusterJob::Part& about = job_.parts.at(part);
    const Json* metrics = job_.job.json().find("metrics");
    const Json result = evaluation_report(metrics ? *metrics : Json(), about.task, about.data, parsed, job_.job.where());
    if (phase_ == Phase::evaluating) epoch_event_.set(part, scalar_figures(result));
    if (part == "test") {
      last_test_ = result;
      last_test_round_ = coordinator_->round();
    }
    if (part == job_.shown_part()) keep_details(merged_details(about.task, about.examples, parsed), part, result);
  } catch (const Error& error) {
    warn("the evaluation of '" + part + "' could not be put together: " + error.what());
  }
  defer_([this] { evaluate_next(); });
}

void ClusterSession::keep_details(Json found, const std::string& part, const Json& result) {
  if (found.is_null()) return;
  if (part != "test") found.set("report", result);
  job_.details.set("evaluation", std::move(found));
}

void ClusterSession::judge_epoch() {
  const double evaluation = now_s() - phase_since_s_;
  epoch_event_.set("seconds", RunLog::rounded_seconds(log_.seconds()));
  log_.emit(epoch_event_);
  coordinator_->describe("epoch", epoch_event_);
  stop_reason_ = judge_.after_epoch(epoch_, epoch_event_, log_.seconds());
  if (judge_.rate_changed()) tell_rate();
  log_.set_aside(evaluation, evaluation);
  coordinator_->set_session(memory().dump());  // a standby must know which epoch was the best
  phase_ = Phase::keeping;
  phase_since_s_ = now_s();
  if (schedule_ && judge_.is_best(epoch_)) kept_.push_back(Keep::best);
  else if (schedule_ && schedule_->due_after_epoch(epoch_)) kept_.push_back(Keep::scheduled);
  keep_next();
}

void ClusterSession::go_on() {
  if (!stop_reason_.empty()) return finish(stop_reason_);
  phase_ = Phase::training;
  coordinator_->release();
}

// ---- time ----

void ClusterSession::show_workers() {
  Json list = Json::array();
  for (const WorkerView& view : coordinator_->workers())
    list.push(Json(Json::Object{{"name", view.name},
                                {"host", view.host},
                                {"state", view.state},
                                {"examples_per_s", std::round(view.examples_per_s * 10) / 10},
                                {"share", std::round(view.share * 1e4) / 1e4},
                                {"round_trip_ms", std::round(view.round_trip_ms * 1e3) / 1e3},
                                {"bytes_up", static_cast<int64_t>(view.bytes_up)},
                                {"bytes_down", static_cast<int64_t>(view.bytes_down)},
                                {"staleness", view.staleness},
                                {"step", view.step},
                                {"waits_for", view.waits_for}}));
  Json event(Json::Object{{"event", "workers"}, {"step", position().step}, {"workers", std::move(list)}});
  if (job_.policy.what == Policy::What::parameters) event.set("averaging", coordinator_->round_view().to_json());
  log_.emit(event);
}

void ClusterSession::tick() {
  if (phase_ == Phase::over) return;
  const double now = now_s();
  faults_.tick(now);
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    const Written written = writing_.get();
    if (written.image) coordinator_->set_resume(written.round, written.image);
    last_checkpoint_round_ = std::max(last_checkpoint_round_, written.round);
    on_written(written.file, written.problem);
  }
  check_image(now);
  if (phase_ != Phase::over && now - last_workers_s_ >= options_.workers_every_s) {
    last_workers_s_ = now;
    show_workers();
  }
  if (!(outside_stop_ || stop_asked_) || interrupted_ || phase_ == Phase::over) return;
  interrupted_ = true;
  stopping_since_s_ = now;
  if (phase_ == Phase::ending) phase_ = Phase::keeping;  // it was ending by itself, which may take too long for a waiting caller
  finish("");
}

}  // namespace perigee
