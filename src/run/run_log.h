// A run's reports about itself: events to sinks and to the run folder, the sums behind them, its clock and what is left of it.
// Sessions on one machine and in a cluster tell the same events with the same members, so that displays, curves and reports need
// not know which of the two they look at.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/run/run_folder.h"
#include "src/train/trainer.h"

namespace perigee {

// Facts that do not change during a run.
struct RunFacts {
  std::string name, data, data_folder;
  int64_t examples = 0, planned = 0;  // of an epoch; of the whole run, 0: endless
  int64_t batch = 0, sub_batch = 0, threads = 1, parameters = 0, memory_bytes = 0;
  std::string device;  // "cuda:0", "cuda:0, cuda:1"; empty: threads compute
};
RunFacts run_facts(Trainer& trainer);

class RunLog {
 public:
  using Sink = std::function<void(const Json& event)>;

  explicit RunLog(RunFacts facts) : facts_(std::move(facts)) {}
  // A folder that this start has made goes with it when nothing was told but a failure: training did not begin.
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;
  void set_folder(std::unique_ptr<RunFolder> folder) { folder_ = std::move(folder); }
  void keep_folder() { begun_ = true; }  // whatever is told
  void add_sink(Sink sink) { sinks_.push_back(std::move(sink)); }
  // A "step" event comes after so many steps at the latest; 0: as usual.
  void tell_every(int64_t steps) { tell_every_ = steps; }

  void set_planned(int64_t examples) { facts_.planned = examples; }
  const RunFacts& facts() const { return facts_; }
  RunFolder* folder() { return folder_.get(); }  // null: nothing is written
  std::string folder_path() const { return folder_ ? folder_->path() : ""; }

  void emit(const Json& event);
  // Starts the clock and tells "start" with the members of `about`.
  void start(const Position& at, const Json& about, const std::string& resumed_from);
  // A step was made; tells "step" when one is due (every 100 steps, every second, or `due`). `more`: further members of the event.
  void step(const StepReport& report, const Position& at, bool due, const Json& more = {});
  // The event of epoch `epoch` (from 1) with the figures of training; the caller adds the evaluations and emits it.
  Json epoch_event(int64_t epoch, const Position& at);
  // "end" with what every run tells; the caller adds the rest and emits it.
  Json end_event(const Position& at) const;
  void add_closing_figures(Json& event, const Position& at) const;  // rate, seconds, folder: the last members

  // Time that was not training: an evaluation after an epoch, and whatever else.
  void set_aside(double seconds, double evaluation_seconds);
  double seconds() const;  // trained so far, with the runs that this one continues
  static double rounded_seconds(double seconds);

  // The state that a resumed run needs.
  void save(Json& extra) const;
  void restore(const Json& extra);

 private:
  using Clock = std::chrono::steady_clock;
  struct Sums {
    double loss = 0, correct = 0;
    int64_t examples = 0;
    void add(const StepReport& report);
    void write(Json& event) const;
  };
  double remaining_seconds(const Position& at) const;
  double epochs_done(const Position& at) const;

  RunFacts facts_;
  std::unique_ptr<RunFolder> folder_;
  bool begun_ = false;  // the folder tells of a training
  int64_t tell_every_ = 0;
  std::vector<Sink> sinks_;
  Clock::time_point started_ = Clock::now(), last_event_ = started_;
  double seconds_before_ = 0;      // of the runs that this one continues
  double aside_seconds_ = 0;       // evaluating and saving
  double evaluation_seconds_ = 0;  // of the last evaluation after an epoch
  int64_t examples_before_ = 0;    // at the start of this process
  int64_t last_event_step_ = 0;
  int64_t skipped_steps_ = 0;
  Sums interval_, epoch_;
};

// The folder of a run: `out`, or that of the run which `resume` continues, or a new one; job.json is in it, and the arrays that the job names.
// Error(resources) when these cannot be written.
std::unique_ptr<RunFolder> open_run_folder(const Job& job, const std::string& out, const std::string& resume);

// The figures of an evaluation that are single numbers: {"loss": 0.03, "accuracy": 0.991}.
Json scalar_figures(const Json& result);

}  // namespace perigee
