// Images that a worker sends become checkpoints and the model; and the end of the run, with the last of both.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <utility>

#include "cluster/launch/cluster_session.h"
#include "src/core/warning.h"
#include "src/io/digest.h"
#include "src/io/file.h"
#include "src/io/safetensors.h"
#include "src/model/evaluator.h"

namespace perigee {

namespace {

constexpr double kImageSeconds = 30;  // so long nothing may come of an image before the run goes on without
constexpr double kImageSecondsWhenStopping = 8;
constexpr double kUsualStopWait = 25;
constexpr double kMeasuredSeconds = 2;  // of an image that comes: then the rest of its time can be told
constexpr double kLongSeconds = 5;      // which is told when it is as long as this

}  // namespace

// ---- images: checkpoints and the model ----

// One image at a time: the next one that is wanted, or else what comes after them.
void ClusterSession::keep_next() {
  if (image_request_ != 0 || writing_.valid() || phase_ == Phase::over) return;
  if (!kept_.empty()) {
    keeping_ = kept_.front();
    kept_.pop_front();
    image_since_s_ = image_heard_s_ = now_s();
    image_seen_ = 0;
    image_request_ = coordinator_->request_image(keeping_ == Keep::model ? "model" : "checkpoint");
    assert(image_request_ != 0);  // one at a time
  } else if (phase_ == Phase::keeping) {
    log_.set_aside(now_s() - phase_since_s_, 0);
    go_on();
  } else if (phase_ == Phase::ending) {
    end_run();
  }
}

// A wait without a deadline is a hang in the making; but through a slow link an image takes its time.
void ClusterSession::check_image(double now) {
  if (image_request_ == 0) return;
  const auto [bytes, total] = coordinator_->image_progress();
  if (bytes != std::exchange(image_seen_, bytes)) image_heard_s_ = now;
  // Nothing may come of it before the exchange that is under way is over: who was told to wait does.
  const double stopping =
      bytes == 0 ? std::max(kImageSecondsWhenStopping, options_.stop_wait_s - kUsualStopWait) : kImageSecondsWhenStopping;
  const double patience = interrupted_ ? stopping : kImageSeconds;
  std::string problem;
  if (now - image_heard_s_ > patience) problem = "no worker sent it within " + std::to_string(static_cast<int>(patience)) + " s";
  else if (interrupted_) problem = overdue(now, bytes, total);
  if (problem.empty()) return;
  image_request_ = 0;
  on_written("", problem);
}

// After a signal to stop: why the checkpoint is given up once --stop-wait is over, and how long would do; empty until then.
std::string ClusterSession::overdue(double now, uint64_t bytes, uint64_t total) {
  const double waited = now - stopping_since_s_, came = now - image_since_s_;
  if (bytes == 0 || total < bytes || came < kMeasuredSeconds) return "";
  const double rate = static_cast<double>(bytes) / came, left = static_cast<double>(total - bytes) / rate;
  char text[240];
  if (waited > options_.stop_wait_s) {
    std::snprintf(text, sizeof text,
                  "%.3g of its %.3g MB came in %.0f s, and the rest needs about %.0f s more; --stop-wait %.0fs would wait",
                  static_cast<double>(bytes) * 1e-6, static_cast<double>(total) * 1e-6, came, left, std::ceil(1.2 * (waited + left)));
    return text;
  }
  if (left < kLongSeconds || std::exchange(slow_told_, true)) return "";
  const bool fits = waited + left <= options_.stop_wait_s;
  std::snprintf(
      text, sizeof text, "the last checkpoint comes at %.2g MB/s and needs about %.0f s more; %s", rate * 1e-6, left,
      fits ? "a second signal ends without it" : "it is given up before that, unless the run was started with a longer --stop-wait");
  warn(text);
  return "";
}

void ClusterSession::on_image(uint64_t request, int64_t round, std::vector<std::byte> image) {
  if (request != image_request_ || phase_ == Phase::over) return;
  image_request_ = 0;
  if (image.empty()) {
    const std::string what = keeping_ == Keep::model ? "the model" : "a checkpoint";
    return defer_([this, what] { on_written("", "no worker could send " + what); });
  }
  write_image(keeping_, round, std::move(image));
}

// On a thread of its own: a disk that takes seconds must not make the workers believe that the coordinator is gone.
void ClusterSession::write_image(Keep keep, int64_t round, std::vector<std::byte> image) {
  const Json extra = memory();
  const std::optional<uint64_t> hash = coordinator_->hash_of(round);
  const std::string model = log_.folder()->model_file();
  CheckpointFolder* folder = checkpoints_.get();
  const bool also_scheduled = keep == Keep::best && schedule_->due_after_epoch(epoch_);
  writing_ = std::async(std::launch::async, [=, image = std::move(image)]() mutable {
    Written written{.round = round};
    try {
      if (keep == Keep::model) {
        written.file = model;
        write_file(model, image);
        return written;
      }
      Safetensors checkpoint = parse_safetensors(image, "a worker's checkpoint");
      checkpoint.metadata["round"] = std::to_string(round);
      if (hash) checkpoint.metadata["hash"] = hex_digest(*hash);
      checkpoint.metadata["extra"] = extra.dump();
      auto bytes = std::make_shared<const std::vector<std::byte>>(safetensors_bytes(checkpoint.tensors, checkpoint.metadata));
      if (keep == Keep::best) folder->add_best(*bytes);
      if (keep != Keep::best || also_scheduled) written.file = folder->add(*bytes, round + 1);
      written.image = bytes;
    } catch (const std::exception& error) {
      written.problem = error.what();
    }
    return written;
  });
}

void ClusterSession::on_written(const std::string& file, const std::string& problem) {
  if (!problem.empty() && keeping_ == Keep::model) model_problem_ = problem;
  else if (!problem.empty()) warn("no checkpoint was written: " + problem);
  else if (keeping_ == Keep::model) model_written_ = true;
  else if (!file.empty()) checkpoint_file_ = file;
  last_checkpoint_s_ = now_s();
  keeping_ = Keep::nothing;
  if (phase_ != Phase::ending || parts_.empty()) keep_next();  // else when the last evaluation is there
}

// ---- the end of the run ----

void ClusterSession::on_finished(int64_t) {
  finished_ = true;
  if (phase_ != Phase::training) return;
  defer_([this] {
    if (finished_) finish("");
  });
}

// Everybody who held the last rounds is gone before they were kept: they are trained once more, and judged and kept then.
void ClusterSession::on_reopened() {
  finished_ = false;
  if (interrupted_ || phase_ == Phase::training || phase_ == Phase::over) return;
  phase_ = Phase::training;
  stop_reason_.clear();
  parts_.clear();
  kept_.clear();
  image_request_ = 0;
  model_written_ = false;
}

// Conclusions from a line of parameters go back with it: the judge has seen no epoch that is to be trained again, so that none counts twice
// as one without improvement; and no round is tested or kept because another one had its number.
void ClusterSession::on_voided() {
  const int64_t round = coordinator_->round(), whole = coordinator_->examples_done() / job_.facts.examples;
  last_checkpoint_round_ = std::min(last_checkpoint_round_, round);
  if (last_test_round_ > round) last_test_round_ = -2;
  const auto again = std::find_if(judged_before_.begin(), judged_before_.end(), [&](const Judged& j) { return j.epoch > whole; });
  if (again == judged_before_.end()) return;
  const double factor = judge_.rate_factor();
  judge_.restore(again->before);
  judged_before_.erase(again, judged_before_.end());
  if (judge_.rate_factor() != factor) defer_([this] { tell_rate(); });
}

// Everything is trained, or a rule ends the run: the last evaluation, the last checkpoint, the model.
void ClusterSession::finish(std::string reason) {
  if (phase_ == Phase::ending || phase_ == Phase::over) return;
  stop_reason_ = std::move(reason);
  phase_ = Phase::ending;
  phase_since_s_ = now_s();
  parts_.clear();
  kept_.clear();
  if (!interrupted_ && job_.parts.contains("test") && last_test_round_ != coordinator_->round()) parts_.push_back("test");
  // One that has been on its way for long would only make the next one late.
  const bool comes = interrupted_ && image_request_ != 0 && keeping_ != Keep::model && now_s() - image_since_s_ > kMeasuredSeconds;
  if (checkpoints_ && !comes) kept_.push_back(Keep::last);
  if (!interrupted_) kept_.push_back(Keep::model);
  evaluate_next();
}

void ClusterSession::end_run() {
  const Position reached = position();
  Json closing = Json::object();
  log_.add_closing_figures(closing, reached);
  keep_link();
  coordinator_->stop(interrupted_ ? "interrupted" : stop_reason_.empty() ? "finished" : stop_reason_, !interrupted_);
  faults_.flush();
  Json event = log_.end_event(reached);
  if (interrupted_) event.set("stopped", "interrupted");
  else if (!stop_reason_.empty()) event.set("stopped", stop_reason_);
  if (!checkpoint_file_.empty()) event.set("checkpoint", checkpoint_file_);
  if (!interrupted_) add_model_of_best(event);
  if (!interrupted_ && !last_test_.is_null()) {
    event.set("test", scalar_figures(last_test_));
    if (const Json* data = last_test_.find("data")) event.set("test_data", *data);
    log_.folder()->report(last_test_);
  }
  if (model_written_) event.set("model", log_.folder()->model_file());
  event.set("workers", most_workers_);
  event.set("time", Json(Json::Object{{"load_s", totals_.load_s},
                                      {"compute_s", totals_.compute_s},
                                      {"encode_s", totals_.encode_s},
                                      {"wait_s", totals_.wait_s},
                                      {"transfer_s", totals_.transfer_s},
                                      {"apply_s", totals_.apply_s}}));
  if (trace_) event.set("trace", trace_->path());
  event.set("bytes_sent", static_cast<int64_t>(totals_.bytes_up));
  event.set("bytes_sent_across", static_cast<int64_t>(totals_.bytes_across));
  event.set("examples_per_s", *closing.find("examples_per_s"));
  event.set("seconds", RunLog::rounded_seconds(log_.seconds()));
  event.set("folder", folder_path_);
  log_.folder()->curves();
  log_.folder()->write_text("details.json", job_.details.dump() + "\n");
  log_.emit(event);
  log_.folder()->page();
  if (!model_problem_.empty())  // everything is trained, but this must not look like a success
    error_ = Error(ErrorKind::resources, {.where = log_.folder()->model_file(),
                                          .what = "the model could not be saved: " + model_problem_,
                                          .hint = checkpoint_file_.empty() ? "" : "its last checkpoint is " + checkpoint_file_});
  end_ = std::move(event);
  phase_ = Phase::over;
}

// Early stopping keeps the best epoch, not the last one.
void ClusterSession::add_model_of_best(Json& event) {
  const std::string best = checkpoints_ && judge_.prefers_earlier() ? log_.folder()->checkpoints() + "/best.safetensors" : "";
  if (best.empty() || !file_exists(best)) return;
  try {
    LoadedModel loaded = load_model(best);
    save_model(loaded, log_.folder()->model_file());
    event.set("model_of", "epoch " + std::to_string(judge_.best_epoch()));
    if (!job_.parts.contains("test")) return;
    ThreadTeam team(options_.trainer.threads > 0 ? options_.trainer.threads : 1);
    const Config data = Config(job_.job.json(), job_.job.where()).object("data");
    const Json description = with_fitted(*data.raw("test"), loaded.fitted);
    const Config test = data.element(description, "test");
    SourceOpener* opener = options_.trainer.opener;
    const SourcePtr source = opener ? opener->open("test", test, job_.job.folder()) : open_source(test, job_.job.folder());
    Evaluator evaluator(*loaded.model, team, source, job_.job.json().find("metrics"), best);
    evaluator.keep_details();
    last_test_ = evaluator.run();
    keep_details(evaluator.details(), "test", last_test_);
  } catch (const Error& error) {
    warn(std::string("the best epoch's model could not be saved: ") + error.what());
  }
}

void ClusterSession::fail(const Error& error) {
  if (phase_ == Phase::over) return;
  phase_ = Phase::over;
  error_ = error;
  faults_.flush();
  log_.emit(Json(Json::Object{{"event", "error"}, {"step", position().step}, {"text", error.what()}}));
  log_.folder()->curves();
  log_.folder()->page();
  if (!coordinator_) return;
  if (is_superseded(error)) coordinator_->abandon();
  else coordinator_->stop(error.what(), false);
}

void ClusterSession::on_failed(const Error& error) {
  defer_([this, error] { fail(error); });
}

Json ClusterSession::result() {
  assert(phase_ == Phase::over);
  if (error_) throw *error_;
  return end_;
}

}  // namespace perigee
