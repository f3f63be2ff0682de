// The phases of a session: each has a trainer of its own, which begins with the numbers that those before it left.
#include <utility>

#include "src/core/warning.h"
#include "src/job/job_parts.h"
#include "src/model/evaluator.h"
#include "src/run/session.h"
#include "src/train/batch_statistics.h"

namespace perigee {

Job Session::current_job() const { return phases_ > 0 ? phase_job(job_, place_.phase) : job_; }

// A checkpoint of another job may be of a phase that this one does not have.
void Session::enter_phase(const PhasePlace& place) {
  if (phases_ > 0 && place.phase >= phases_)
    throw Error(ErrorKind::model, {.where = job_.where() + ": phases",
                                   .what = "the checkpoint is of a phase that the job does not have",
                                   .got = "phase " + std::to_string(place.phase + 1),
                                   .expected = std::to_string(phases_) + " phases"});
  place_ = place;
  try {
    const Job job = current_job();
    trainer_ = make_trainer(job);
    settings_ = RunSettings(job, trainer_->turns() ? std::vector<RunSettings::Term>() : terms_of(trainer_->shape()));
  } catch (const Error& error) {
    throw job_.placed(error);
  }
  if (place.phase > 0) trainer_->begin_at(place.origin);
}

// A mistake in a later phase is told before the first one trains.
void Session::check_phases() const {
  if (phases_ == 0) return;
  PhaseShapes shapes;
  shapes.follow(trainer_->shape().params(), trainer_->job().where());
  for (size_t i = place_.phase + 1; i < phases_; ++i) {
    const TrainingSetup setup(phase_job(job_, i), options_.trainer);
    shapes.follow(setup.model->params(), setup.job.where());
  }
}

// Those of the phases to come by this one's data.
int64_t Session::planned_of_all() const {
  int64_t planned = trainer_->planned_examples();
  for (size_t i = place_.phase + 1; i < phases_ && planned > 0; ++i) {
    const int64_t more = examples_planned(phase_job(job_, i), trainer_->train_source().size());
    planned = more > 0 ? planned + more : 0;
  }
  return planned;
}

void Session::tell_phase() {
  const Position& origin = trainer_->origin();
  Json event = Json(Json::Object{{"event", "phase"},
                                 {"phase", static_cast<int64_t>(place_.phase) + 1},
                                 {"of", static_cast<int64_t>(phases_)},
                                 {"name", phase_name(job_, place_.phase)},
                                 {"step", trainer_->position().step},
                                 {"epochs_done", static_cast<int64_t>(origin.epoch)}});
  event.set("parameters", trainer_->shape().params().parameter_elements());
  if (!stop_reason_.empty()) event.set("before", stop_reason_);  // why the phase before ended
  log_->emit(event);
}

// The phase is over: its network, at its best where early stopping keeps that, is what the next one begins with.
void Session::next_phase() {
  Position reached = trainer_->position();
  if (checkpoints_) checkpoints_->settle();
  model_of_best();
  try {
    refresh_statistics(*trainer_, outside_stop_);
  } catch (const Error& error) {
    warn(std::string("swa: batch norm keeps the mean of the steps' statistics: ") + error.what());
  }
  numbers_.take(*trainer_);
  if (log_->folder()) numbers_.save(PhaseNumbers::file_in(folder_path_));
  reached.epoch += reached.position > 0 ? 1 : 0;
  reached.position = 0;
  checkpoints_.reset();
  judge_.reset();
  for (size_t i = 0; i < kTracePhases; ++i) seconds_before_[i] += trainer_->times().seconds(static_cast<TracePhase>(i));
  trainer_.reset();
  enter_phase({.phase = place_.phase + 1, .origin = reached});
  numbers_.put(*trainer_);
  log_->set_planned(planned_of_all());
  prepare();
  last_test_step_ = -1;
  begin_details();
  tell_phase();
  stop_reason_.clear();
  if (!log_->folder()) return;
  open_checkpoints();
  update_extra();
  if (checkpoints_) checkpoints_->save(*trainer_);  // a resumed run begins with this phase
}

}  // namespace perigee
