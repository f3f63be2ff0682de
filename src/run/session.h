// One training run from start to end: a trainer with its run folder, checkpoints, evaluation after each epoch, early stopping,
// resume, and a stream of events that says what happens. The program and libperigee train through this.
//
// Events are JSON objects: {"event": "start" | "step" | "epoch" | "end" | "error", ...}. "step" comes at least every 100 steps
// and every second (a step that takes longer has its own); the last is "end", or "error" when the run failed.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/io/plot/trace_file.h"
#include "src/run/checkpoint_hook.h"
#include "src/run/epoch_judge.h"
#include "src/run/log/tensorboard_log.h"
#include "src/run/phases/phase_numbers.h"
#include "src/run/run_log.h"
#include "src/run/run_settings.h"
#include "src/train/trainer.h"

namespace perigee {

struct SessionOptions {
  TrainerOptions trainer;
  bool folder = true;        // false: nothing is written
  std::string out;           // the run folder; empty: runs/<name>-<time>
  std::string resume;        // a run folder or a checkpoint file to continue from; empty: start anew
  Json about;                // an object whose members the "start" event carries: script, command line
  std::string trace;         // the file of a timeline; empty: none
  int64_t events_every = 0;  // steps between two "step" events at most; 0: as usual
  Hook* hook = nullptr;      // called after the session's own; outlives the session; null: none
};

class Session final : private Hook {
 public:
  using Sink = RunLog::Sink;

  // Opens the data, builds the model, loads the checkpoint. Error(data), Error(model), Error(usage).
  Session(const Job& job, SessionOptions options);

  void add_sink(Sink sink) { log_->add_sink(std::move(sink)); }
  // Trains until the planned end, an early stop, or `stop`; then evaluates, saves the model and the report. Returns the "end" event.
  // Stopped from outside, it saves a checkpoint, and "stopped" in the event is "interrupted". Error(model) when the loss is not finite.
  Json run(const std::atomic<bool>& stop);

  // Between two steps, or after the last one:
  // An option of the job (run_settings.h) from the next step on; tells an event "set". Checkpoints keep it, and a resumed run goes on with it.
  // Error(usage), Error(model), and nothing has changed.
  void set_option(const std::string& option, const Json& value);
  void tell(const Json& event);  // to the sinks and the log

  // Any thread, once run() has begun or before: as its `stop`.
  void stop() { asked_to_stop_ = true; }
  bool stop_asked() const { return asked_to_stop_ || (outside_stop_ && *outside_stop_); }
  std::string checkpoint();        // its file; Error(usage) when the job keeps none
  void set_aside(double seconds);  // that were no training, as of a pause

  Trainer& trainer() { return *trainer_; }                            // of the phase that the run is in
  int64_t planned_examples() const { return log_->facts().planned; }  // of all phases; 0: endless
  const RunSettings& settings() const { return settings_; }
  const std::string& folder() const { return folder_path_; }  // empty: none
  const std::string& resumed_from() const { return resumed_from_; }

 private:
  void on_step(Trainer& trainer, const StepReport& report) override;
  void on_epoch(Trainer& trainer, uint64_t epoch) override;

  void prepare();
  void open_folder();
  void open_checkpoints();
  // session_phases.cpp
  Job current_job() const;
  void enter_phase(const PhasePlace& place);
  void check_phases() const;
  int64_t planned_of_all() const;
  void tell_phase();
  bool goes_on() const { return phases_ > 0 && place_.phase + 1 < phases_; }
  void next_phase();
  void begin_details();
  void finish_details();
  void resume();
  Json evaluate(const std::string& part);
  void judge_epoch(int64_t epoch, const Json& event);
  void update_extra();
  void apply_option(const std::string& resolved, const Json& value);
  void tell_option(const std::string& resolved, const Json& value, bool resumed);
  Json finish(bool interrupted);
  std::optional<Error> finish_model(Json& event);
  std::string model_of_best();
  std::string save_trained();

  std::unique_ptr<Trainer> make_trainer(const Job& job);
  Json time_table() const;

  SessionOptions options_;
  const Job job_;        // with all its phases
  const size_t phases_;  // 0: it is one job
  PhasePlace place_;
  PhaseNumbers numbers_;                                  // of the phases before
  std::array<double, kTracePhases> seconds_before_ = {};  // likewise, by what their trainers did
  TraceRing trace_ring_;
  std::unique_ptr<TraceFile> trace_;  // null: none
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<TensorboardLog> pictures_;  // null: there are no event files
  std::unique_ptr<EpochJudge> judge_;
  RunSettings settings_;
  std::string folder_path_, resumed_from_;
  std::unique_ptr<CheckpointHook> checkpoints_;

  const std::atomic<bool>* outside_stop_ = nullptr;
  std::atomic<bool> stop_{false}, asked_to_stop_{false};
  std::string stop_reason_;
  Json details_;    // run_details(), in the end with the last evaluation's
  Json last_test_;  // the result at step last_test_step_
  int64_t last_test_step_ = -1;
  Json last_validation_;
};

}  // namespace perigee
