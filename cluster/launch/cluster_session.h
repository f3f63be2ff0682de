// One training run in a cluster, as its launcher sees it: the counterpart of src/run/session.h, with the same events, run folder,
// checkpoints, evaluation after each epoch, early stopping and resume. It holds no parameters: what it writes are images that a worker
// sends. A state machine over Coordinator's events; owned by the loop thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/launch/cluster_job.h"
#include "cluster/launch/link_fit.h"
#include "cluster/ledger/file_ledger.h"
#include "cluster/membership/coordinator.h"
#include "cluster/membership/fault_log.h"
#include "cluster/membership/standby.h"
#include "src/io/plot/trace_file.h"
#include "src/run/checkpoint_folder.h"
#include "src/run/epoch_judge.h"
#include "src/run/run_log.h"

namespace perigee {

struct ClusterSessionOptions {
  TrainerOptions trainer;  // threads: of each worker
  std::string out, resume;
  Json about;                  // members of the "start" event
  double workers_every_s = 1;  // between two "workers" events
  std::string trace;           // the file of a timeline; empty: none
  double stop_wait_s = 25;     // so long a run that is asked to end waits for its last checkpoint
};

class ClusterSession final : public CoordinatorEvents {
 public:
  // `stop` is read in tick(). `defer` runs something later on the loop thread: the coordinator must not be called from its events.
  using Defer = std::function<void(std::function<void()>)>;
  // Error(data), Error(model), Error(usage), Error(resources).
  ClusterSession(const Job& job, ClusterSessionOptions options, const std::atomic<bool>& stop, Defer defer);
  // A standby's start as coordinator: a run folder of its own gets ledger and checkpoint. `from` is where the coordinator was.
  ClusterSession(ClusterJob job, ClusterSessionOptions options, const std::atomic<bool>& stop, Defer defer, uint64_t job_id,
                 const Inheritance& inheritance, const std::string& from);
  ~ClusterSession() override;

  void add_sink(RunLog::Sink sink) { log_.add_sink(std::move(sink)); }
  const std::string& folder() const { return folder_path_; }
  const ClusterJob& job() const { return job_; }
  LedgerStore& ledger() { return *ledger_; }
  uint64_t job_id() const { return job_id_; }      // random; that of the run which this one continues
  void set_address(const std::string& listening);  // kept, so that a resumed run is found by workers that are still there
  const std::string& earlier_address() const { return earlier_address_; }
  bool resumed() const { return !resumed_from_.empty(); }
  bool continues_crashed_run() const;  // its workers may still be there

  // Describes the job and the checkpoint that it continues from; the launcher adds what it knows of workers.
  CoordinatorOptions coordinator_options() const;
  void check_plateau(bool recorded) const;  // Error: this run cannot have the job's reduce_on_plateau

  // Tells "start" and starts the coordinator.
  void start(Coordinator& coordinator);
  void tick();  // a few times a second
  void on_process_end(const ProcessEnd& end);
  void tell(const Json& event);   // something that the launcher has to say
  void fail(const Error& error);  // ends the run
  bool over() const { return phase_ == Phase::over; }
  bool superseded() const { return error_ && is_superseded(*error_); }  // the workers are another coordinator's
  Json result();                                                        // the "end" event; throws the Error that ended the run

  void on_round(int64_t round, uint64_t generation, int64_t examples_done, int workers, const Figures& figures, int64_t examples) override;
  void on_epoch(uint64_t epoch) override;
  void on_evaluated(const std::string& part, const std::vector<std::string>& states) override;
  void on_image(uint64_t request, int64_t round, std::vector<std::byte> image) override;
  void on_event(const Json& event) override;
  void on_finished(int64_t round) override;
  void on_reopened() override;
  void on_failed(const Error& error) override;
  std::string on_asked(Asked what) override;
  void on_trace(const WorkerTrace& trace) override;
  void on_span(const char* name, uint64_t begin_ns, uint64_t end_ns, const Json& args) override;

 private:
  enum class Phase { training, evaluating, keeping, ending, over };
  enum class Keep { nothing, scheduled, best, last, model };  // what an image is for

  void open_trace();
  void tell_event(const Json& event);
  void open_folder();
  void read_identity();
  void resume();
  void inherit(const Inheritance& inheritance);
  void restore(const SharedBytes& checkpoint, int64_t round, const std::string& file);  // `round`: of which it is
  Json memory() const;
  Position position() const;
  void evaluate_next();
  void keep_details(Json found, const std::string& part, const Json& result);
  void judge_epoch();
  void add_settings(CoordinatorOptions* options) const;
  Json scaled_rate(double factor) const;
  void tell_rate();
  void on_voided();
  void go_on();
  void keep_next();
  void write_image(Keep keep, int64_t round, std::vector<std::byte> image);
  void on_written(const std::string& file, const std::string& problem);
  void finish(std::string reason);
  void end_run();
  void add_model_of_best(Json& event);
  void show_workers();
  void check_image(double now);
  std::string overdue(double now, uint64_t bytes, uint64_t total);
  void watch_link(const Figures& figures, int workers, int64_t examples);
  void keep_link();
  void recall_link();
  double now_s() const;

  ClusterSessionOptions options_;
  const std::atomic<bool>& outside_stop_;
  Defer defer_;
  ClusterJob job_;
  RunLog log_;
  EpochJudge judge_;
  FaultLog faults_;
  std::unique_ptr<TraceFile> trace_;  // null: none
  std::set<WorkerId> traced_;         // that have a name in it
  uint64_t job_id_ = 0;
  std::string folder_path_, resumed_from_, earlier_address_;
  std::unique_ptr<CheckpointSchedule> schedule_;  // null: no checkpoints
  std::unique_ptr<CheckpointFolder> checkpoints_;
  std::unique_ptr<FileLedger> ledger_;
  int64_t resume_round_ = -1;
  SharedBytes resume_image_;

  Coordinator* coordinator_ = nullptr;
  Phase phase_ = Phase::training;
  std::deque<std::string> parts_;  // to be evaluated, in order
  Json epoch_event_;
  int64_t epoch_ = 0;
  double phase_since_s_ = 0, image_since_s_ = 0;
  uint64_t image_seen_ = 0;   // bytes of it ...
  double image_heard_s_ = 0;  // ... and when the last of them came
  double stopping_since_s_ = 0;
  bool slow_told_ = false;  // that the last checkpoint takes long
  Json last_test_;
  int64_t last_test_round_ = -2;

  std::deque<Keep> kept_;  // images still to be had, at most three
  Keep keeping_ = Keep::nothing;
  uint64_t image_request_ = 0;
  struct Written {
    std::string file, problem;
    SharedBytes image;
    int64_t round = -1;
  };
  std::future<Written> writing_;
  int64_t last_checkpoint_round_ = -1;
  double last_checkpoint_s_ = 0, last_workers_s_ = 0;

  struct Judged {
    int64_t epoch = 0;
    Json before;  // the judge's state when the epoch was complete, should it not be any more
  };
  std::deque<Judged> judged_before_;
  bool finished_ = false;  // the coordinator says so
  std::string stop_reason_, checkpoint_file_, model_problem_;
  bool interrupted_ = false, model_written_ = false;
  bool stop_asked_ = false;    // by a steering client
  double paused_since_s_ = 0;  // 0: it is not paused
  Figures totals_;
  int most_workers_ = 0;
  LinkWatch link_watch_;
  uint64_t generation_ = 0;  // of the last round
  Json end_;
  std::optional<Error> error_;
};

}  // namespace perigee
