#include "src/run/checkpoint_hook.h"

#include <chrono>
#include <utility>

#include "src/core/warning.h"

namespace perigee {
namespace {

constexpr double kSettleSeconds = 600;  // a disk that takes longer has failed

double now_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

CheckpointHook::CheckpointHook(const Config& options, const std::string& folder, double first_seconds, size_t cheap_bytes)
    : first_seconds_(first_seconds), cheap_bytes_(cheap_bytes), schedule_(options), folder_(folder, schedule_.keep), writer_(folder_) {}

void CheckpointHook::change(const Config& options) {
  const CheckpointSchedule next(options);
  settle();  // the thread that writes also removes what is too old
  schedule_ = next;
  folder_.set_keep(schedule_.keep);
  owed_ = false;
}

void CheckpointHook::on_start(Trainer&) { started_ = last_save_ = now_seconds(); }

void CheckpointHook::on_step(Trainer& trainer, const StepReport& report) {
  collect();
  const double now = now_seconds();
  const bool first = !kept_any_ && schedule_.any() && now - started_ >= first_seconds_;
  if (ends_with_save_ && trainer.finished()) return;
  owed_ = owed_ || first || schedule_.due_after_step(report.step - 1, report.step, now - last_save_);
  if (owed_ && may_copy(trainer)) keep(trainer, {.newest = true});
}

void CheckpointHook::on_epoch(Trainer& trainer, uint64_t epoch) {
  const bool saved_soon = ends_with_save_ && trainer.finished();
  owed_ = owed_ || (!saved_soon && schedule_.due_after_epoch(static_cast<int64_t>(epoch) + 1));
  const bool best = std::exchange(best_, false);
  const CheckpointKinds kinds{.newest = owed_ && (best || may_copy(trainer)), .best = best};
  if (kinds.newest || kinds.best) keep(trainer, kinds);
}

bool CheckpointHook::may_copy(const Trainer& trainer) {
  return writer_.free() || trainer.finished() || CheckpointSnapshot::bytes_of(trainer) < cheap_bytes_;
}

void CheckpointHook::keep(Trainer& trainer, CheckpointKinds kinds) {
  const PhaseScope scope(trainer.times(), TracePhase::checkpoint);
  if (kinds.newest) last_save_ = now_seconds(), kept_any_ = true, owed_ = false;
  try {
    writer_.keep(trainer, extra_, kinds);
  } catch (const std::exception& error) {
    tell({.step = trainer.position().step, .best = !kinds.newest, .file = "", .problem = error.what()});
  }
}

void CheckpointHook::begin_save(Trainer& trainer) {
  saved_step_ = trainer.position().step;
  saved_file_.clear();
  keep(trainer, {.newest = true});
  writer_.hurry();
}

std::string CheckpointHook::end_save(Trainer& trainer) {
  const PhaseScope scope(trainer.times(), TracePhase::checkpoint);
  settle();
  return saved_file_;
}

std::string CheckpointHook::save(Trainer& trainer) {
  begin_save(trainer);
  return end_save(trainer);
}

void CheckpointHook::settle() {
  if (!writer_.finish(kSettleSeconds)) tell({.problem = "the disk does not take it within 10 minutes"});
  collect();
}

void CheckpointHook::collect() {
  for (const CheckpointResult& result : writer_.take_results()) {
    tell(result);
    if (result.step == saved_step_ && !result.best) saved_file_ = result.file;
  }
}

void CheckpointHook::tell(const CheckpointResult& result) {
  if (result.problem.empty()) return;
  if (result.best) return warn("the best checkpoint could not be saved: " + result.problem);
  const double now = now_seconds();
  if (now - last_warning_ < 60) return;
  last_warning_ = now;
  warn("no checkpoint was written: " + result.problem + "; training goes on");
}

}  // namespace perigee
