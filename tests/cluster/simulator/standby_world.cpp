#include "tests/cluster/simulator/standby_world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "cluster/membership/coordinator.h"
#include "cluster/membership/standby.h"
#include "cluster/membership/worker.h"
#include "cluster/simulator/disk.h"
#include "cluster/simulator/fake_replica.h"
#include "cluster/simulator/network/network.h"

namespace perigee::sim {
namespace {

constexpr uint64_t kJob = 0x5eed;
constexpr double kLimitMs = 400'000;  // of virtual time after the last fault
constexpr uint64_t kMaxEvents = 4'000'000;

class StandbyWorld {
 public:
  StandbyWorld(uint64_t seed, bool trace) : rng_(mix(seed, 0x7374616e)), network_(seed), trace_(trace) {
    averaging_ = rng_.chance(0.4) ? R"({"type": "allreduce", "deadline_ms": 2000})"
                 : rng_.chance(0.5)
                     ? R"({"type": "periodic", "every": 2, "deadline_ms": 2000})"
                     : R"({"type": "periodic", "every": 2, "quorum": 0.3, "grace_ms": 5, "max_staleness": 3, "deadline_ms": 2000})";
    network_.set_quality({.latency_ms = rng_.between(0.1, 10), .jitter_ms = rng_.between(0, 3)});
    const int workers = static_cast<int>(rng_.integer(1, 5));
    standby_host_ = rng_.chance(0.5) ? 1 : 100;
    main_.process = network_.add_process(0, "coordinator:1");
    spare_.process = network_.add_process(standby_host_, "standby:1");
    start_main(false);
    start_spare();
    for (int i = 0; i < workers; ++i) {
      auto node = std::make_unique<WorkerNode>(*this);
      node->number = i;
      node->process = network_.add_process(i + 1, "worker" + std::to_string(i) + ":1");
      workers_.push_back(std::move(node));
      network_.at(in(rng_.between(0, 200)), [this, i] { start_worker(i); });
    }
    plan_faults();
    if (trace_)
      network_.watch = [this](int from, int to, std::span<const std::byte> frame) {
        FrameHeader h;
        if (read_header(frame, &h) && h.type != MessageType::beat && h.type != MessageType::chunk && h.type != MessageType::replicate &&
            h.type != MessageType::replicated)
          say(name_of(from) + " -> " + name_of(to) + " " + to_string(h.type) + " generation " + std::to_string(h.generation) + " round " +
              std::to_string(h.round));
      };
  }

  StandbyOutcome run() {
    while (outcome_.failure.empty() && !over()) {
      if (network_.events() > kMaxEvents) fail("too many events");
      else if (!network_.step()) fail("nothing happens any more");
      else if (network_.now_ns() > static_cast<uint64_t>((quiet_ms_ + kLimitMs) * 1e6) + start_ns_) fail("not finished: " + picture());
    }
    if (outcome_.failure.empty()) check_end();
    outcome_.taken_over = spare_.established;
    outcome_.trace_hash = network_.trace_hash();
    return outcome_;
  }

 private:
  // One place that can coordinate, with its own disk.
  struct Site final : TransportEvents, CoordinatorEvents, StandbyEvents {
    explicit Site(StandbyWorld& w) : world(w) {}
    StandbyWorld& world;
    int process = -1;
    uint64_t life = 0;
    Disk disk;
    std::unique_ptr<Coordinator> coordinator;
    std::unique_ptr<Standby> standby;
    int64_t checkpoint_round = -1;
    SharedBytes checkpoint;
    bool established = false;  // of the standby: it has committed or formed

    TransportEvents& now() { return coordinator ? static_cast<TransportEvents&>(*coordinator) : *standby; }
    void on_connected(PeerId peer, const std::string& address) override { now().on_connected(peer, address); }
    void on_frame(PeerId peer, std::span<const std::byte> frame) override { now().on_frame(peer, frame); }
    void on_lost(PeerId peer, PeerLoss why) override { now().on_lost(peer, why); }
    void on_timer(uint64_t timer) override { now().on_timer(timer), world.watch_standby(); }
    void on_writable(PeerId peer) override { now().on_writable(peer); }

    void later(std::function<void(Coordinator&)> what) {
      world.network_.post(process, 1000, [this, what = std::move(what)] {
        if (coordinator) what(*coordinator);
      });
    }
    void on_round(int64_t round, uint64_t, int64_t, int, const Figures&, int64_t) override {
      world.watch_standby();
      if (round % 7 == 6) later([](Coordinator& c) { c.request_image("checkpoint"); });
    }
    void on_epoch(uint64_t) override {
      later([](Coordinator& c) { c.set_session("{}"), c.release(); });
    }
    void on_evaluated(const std::string&, const std::vector<std::string>&) override {}
    void on_image(uint64_t, int64_t round, std::vector<std::byte> image) override {
      if (image.empty()) return;
      checkpoint_round = round;
      checkpoint = std::make_shared<const std::vector<std::byte>>(std::move(image));
      later([this](Coordinator& c) { c.set_resume(checkpoint_round, checkpoint); });
    }
    void on_event(const Json& event) override { world.told(*this, event); }
    void on_finished(int64_t) override {
      later([this](Coordinator& c) {
        if (*c.status().find("phase") != Json("finished")) return;  // it was reopened
        world.say("finished");
        world.winner_ = this;
        world.stopped_ns_ = world.network_.now_ns();
        c.stop("finished", true);
      });
    }
    void on_reopened() override {}
    void on_failed(const Error& error) override { world.on_failed(*this, error); }
    void on_take_over(const std::string&) override {
      world.network_.post(process, 0, [this] { world.take_over(); });
    }
    void on_stopped(const std::string&, bool) override { world.end_later(*this, false); }
  };

  struct WorkerNode final : WorkerEvents {
    explicit WorkerNode(StandbyWorld& w) : world(w) {}
    StandbyWorld& world;
    int number = 0, process = -1;
    uint64_t life = 0;
    ReplicaFaults faults;
    std::unique_ptr<FakeReplica> replica;
    std::unique_ptr<Worker> worker;
    std::optional<Contents> last;
    int64_t last_round = -1;
    bool finished = false;
    void on_event(const Json& event) override { world.say("worker " + std::to_string(number) + " says " + event.dump()); }
    void on_stopped(const std::string&, bool done) override {
      finished = done;
      if (done) last = replica->contents(), last_round = replica->round();
      world.worker_over(number);
    }
    void on_failed(const Error& error) override {
      world.say("worker " + std::to_string(number) + " failed: " + error.what());
      world.worker_over(number);
    }
  };

  uint64_t in(double ms) const { return network_.now_ns() + static_cast<uint64_t>(ms * 1e6); }
  void say(const std::string& text) const {
    if (trace_) std::printf("%10.3f ms  %s\n", static_cast<double>(network_.now_ns() - start_ns_) * 1e-6, text.c_str());
  }
  std::string name_of(int process) const {
    if (process == main_.process) return "coordinator";
    if (process == spare_.process) return "standby";
    for (const auto& node : workers_)
      if (node->process == process) return "worker " + std::to_string(node->number);
    return "?";
  }
  void fail(const std::string& what) {
    say("FAILURE: " + what);
    if (outcome_.failure.empty()) outcome_.failure = what;
  }
  std::string picture() const {
    std::string text = main_.coordinator ? "coordinator " + main_.coordinator->status().dump() : "no coordinator";
    if (spare_.coordinator) text += "\n  standby coordinates " + spare_.coordinator->status().dump();
    else if (spare_.standby) text += "\n  standby " + spare_.standby->status().dump();
    for (const auto& node : workers_) text += "\n  " + (node->worker ? node->worker->status().dump() : std::string("dead"));
    return text;
  }

  // ---- processes ----
  CoordinatorOptions options() const {
    Json job = Json::object();
    job.set("averaging", Json::parse(averaging_, "test"));
    CoordinatorOptions o{.job_id = kJob, .job = job.dump(), .policy = read_policy(job.find("averaging"), "test")};
    o.examples = 60, o.planned = 180, o.batch = 2, o.fingerprint = 1;
    return o;
  }

  void start_main(bool again) {
    if (main_.coordinator || outcome_.superseded || winner_ || !outcome_.failure.empty()) return;
    CoordinatorOptions o = options();
    o.address = "coordinator:1";
    o.standby = "agent:1";
    o.takes_over = again;
    o.resume_round = main_.checkpoint_round, o.resume_image = main_.checkpoint;
    ++main_.life;
    say(again ? "coordinator started again" : "coordinator started");
    main_.coordinator = std::make_unique<Coordinator>(std::move(o), network_.clock(main_.process), network_.rng(main_.process),
                                                      network_.transport(main_.process), main_.disk, main_);
    network_.boot(main_.process, &main_);
    main_.coordinator->start();
  }

  void start_spare() {
    if (spare_.standby || spare_.coordinator || winner_ || !outcome_.failure.empty()) return;
    ++spare_.life;
    say("standby started");
    spare_.standby = std::make_unique<Standby>(
        StandbyOptions{.coordinator = "coordinator:1", .name = "standby", .host = "s", .address = "standby:1", .job_id = kJob},
        network_.clock(spare_.process), network_.rng(spare_.process), network_.transport(spare_.process), spare_);
    network_.boot(spare_.process, &spare_);
    spare_.standby->start();
  }

  void take_over() {
    say("the standby takes over");
    ++outcome_.reached["take_over"];
    Inheritance inheritance = spare_.standby->take();
    spare_.standby.reset();
    spare_.disk = Disk();
    spare_.disk.append(inheritance.ledger);
    spare_.checkpoint_round = inheritance.checkpoint_round, spare_.checkpoint = inheritance.checkpoint;
    CoordinatorOptions o = options();
    o.address = "standby:1";
    o.takes_over = o.is_standby = true;
    o.take_over_ms = 10'000;
    o.generation = inheritance.generation;
    o.memberships = inheritance.memberships;
    o.who = inheritance.who, o.steering = inheritance.steering;
    o.old_coordinator = "coordinator:1";
    o.resume_round = inheritance.checkpoint_round, o.resume_image = inheritance.checkpoint;
    spare_.coordinator = std::make_unique<Coordinator>(std::move(o), network_.clock(spare_.process), network_.rng(spare_.process),
                                                       network_.transport(spare_.process), spare_.disk, spare_);
    spare_.coordinator->start();
    for (const auto& arrival : inheritance.arrivals) {
      spare_.coordinator->on_connected(arrival.peer, arrival.address);
      for (const auto& frame : arrival.frames) spare_.coordinator->on_frame(arrival.peer, frame);
    }
  }

  void watch_standby() {
    if (spare_.coordinator && spare_.coordinator->established()) spare_.established = true;
  }

  void kill(Site& site) {
    network_.kill(site.process, false);
    ++site.life;
    site.coordinator.reset();
    site.standby.reset();
  }
  // From within its own callback.
  void end_later(Site& site, bool again) {
    network_.at(network_.now_ns(), [this, &site, life = site.life, again] {
      if (site.life != life) return;
      kill(site);
      if (again) network_.at(in(500), [this] { start_spare(); });
    });
  }
  void on_failed(Site& site, const Error& error) {
    say(std::string("failed: ") + error.what());
    if (&site == &main_ && is_superseded(error)) {
      // Without a successor (it tried to take over, and its workers died) the operator has to start it again.
      watch_standby();
      ++outcome_.reached[spare_.established ? "superseded" : "superseded_by_nobody"];
      outcome_.superseded = outcome_.superseded || spare_.established;
      return end_later(site, false);
    }
    if (&site == &spare_ && !spare_.established) {  // it could not take over, or found no worker: its agent starts it anew
      ++outcome_.reached["standby_gave_up"];
      return end_later(site, true);
    }
    fail(error.what());
  }
  void told(const Site& site, const Json& event) {
    ++outcome_.reached[event.find("event")->as_string()];
    say((&site == &main_ ? "coordinator says " : "standby says ") + event.dump());
  }

  void start_worker(int number) {
    WorkerNode& node = *workers_[static_cast<size_t>(number)];
    if (node.worker || node.finished || !outcome_.failure.empty()) return;
    ++node.life;
    FakeReplica::Options r;
    r.examples = 60, r.example_ms = 4;
    node.replica = std::make_unique<FakeReplica>(r, network_, node.process, node.faults, [this, number](const std::string& what) {
      fail("worker " + std::to_string(number) + ": " + what);
    });
    watch_standby();  // whose agents then know where it is
    node.worker = std::make_unique<Worker>(WorkerOptions{.coordinators = {spare_.established ? "standby:1" : "coordinator:1"},
                                                         .name = "w" + std::to_string(number),
                                                         .host = "h" + std::to_string(number),
                                                         .address = "worker" + std::to_string(number) + ":1"},
                                           network_.clock(node.process), network_.rng(node.process), network_.transport(node.process),
                                           *node.replica, node);
    node.replica->set_events(node.worker.get());
    network_.boot(node.process, node.worker.get());
    node.worker->start();
  }
  void end_worker(int number, double back_after_ms) {
    WorkerNode& node = *workers_[static_cast<size_t>(number)];
    if (!node.worker) return;
    network_.kill(node.process, false);
    node.worker.reset();
    node.replica.reset();
    ++node.life;
    network_.at(in(back_after_ms), [this, number] { start_worker(number); });
  }
  void worker_over(int number) {
    network_.at(network_.now_ns(), [this, number, life = workers_[static_cast<size_t>(number)]->life] {
      if (workers_[static_cast<size_t>(number)]->life == life) end_worker(number, 300);
    });
  }

  // ---- what befalls them ----
  void cut(int a, int b, double for_ms) {
    if (a == b) return;
    const int64_t ways = rng_.integer(1, 3);
    if (ways & 1) network_.block(a, b);
    if (ways & 2) network_.block(b, a);
    network_.at(in(for_ms), [this, a, b, ways] {
      if (ways & 1) network_.unblock(a, b);
      if (ways & 2) network_.unblock(b, a);
    });
  }
  void plan_faults() {
    const auto count = rng_.integer(1, 5);
    for (int64_t i = 0; i < count; ++i) {
      const double at = rng_.between(50, 1500) * (rng_.chance(0.3) ? 4 : 1),
                   length = std::exp(rng_.between(std::log(30.0), std::log(12000.0)));
      quiet_ms_ = std::max(quiet_ms_, at + length);
      network_.at(in(at), [this, length] { strike(length); });
    }
    // The operator looks after it in the end, and starts the coordinator again if there is none.
    network_.at(in(quiet_ms_ + 15'000), [this] { look_after(); });
  }
  void look_after() {
    watch_standby();
    if (winner_) return;
    if (!spare_.established) start_main(true);
    start_spare();
    network_.at(in(15'000), [this] { look_after(); });
  }
  void pause(int process, double length) {
    if (!network_.alive(process) || network_.paused(process)) return;
    network_.pause(process);
    network_.at(in(length), [this, process] { network_.resume(process); });
  }
  void strike(double length) {
    if (winner_) return;
    const auto who = static_cast<int>(rng_.integer(0, static_cast<int64_t>(workers_.size()) - 1));
    const auto kind = rng_.integer(0, 9);
    say("FAULT " + std::to_string(kind) + " for " + std::to_string(length) + " ms, worker " + std::to_string(who));
    watch_standby();
    switch (kind) {
      case 0:
      case 1:  // the launcher dies; the operator starts it again at once, or much later
        if (!main_.coordinator) return;
        kill(main_);
        if (rng_.chance(0.4)) main_.disk.lose_power(rng_);
        if (rng_.chance(0.4)) network_.at(in(rng_.between(100, 9000)), [this] { start_main(true); });
        return;
      case 2: return pause(main_.process, length);
      case 3:
        if (spare_.coordinator || !spare_.standby) return;
        kill(spare_);
        network_.at(in(500), [this] { start_spare(); });
        return;
      case 4:
        if (!spare_.coordinator) pause(spare_.process, length);
        return;
      case 5: return end_worker(who, rng_.between(200, 3000));
      case 6: return pause(workers_[static_cast<size_t>(who)]->process, length);
      case 7: return cut(0, standby_host_, length);
      case 8:  // the coordinator from some of the workers, perhaps all
        for (size_t i = 0; i < workers_.size(); ++i)
          if (rng_.chance(0.7)) cut(0, static_cast<int>(i) + 1, length);
        if (rng_.chance(0.5)) cut(0, standby_host_, length);
        return;
      default:  // a worker from everybody
        cut(who + 1, 0, length);
        cut(who + 1, standby_host_, length);
        for (size_t i = 0; i < workers_.size(); ++i) cut(who + 1, static_cast<int>(i) + 1, length);
    }
  }

  // ---- what must hold ----
  bool over() const {
    if (!winner_) return false;
    if (network_.now_ns() > stopped_ns_ + 20'000'000'000) return true;
    for (const auto& node : workers_)
      if (node->worker) return false;
    return true;
  }
  static std::vector<LedgerRecord> records_of(const Site& site) {
    size_t read = 0;
    return decode_records(site.disk.bytes(), &read);
  }
  void check_end() {
    const std::vector<LedgerRecord> records = records_of(*winner_);
    const LedgerAudit proof = audit(records);
    if (!proof.sound()) fail("the ledger is not sound: " + proof.to_json().dump());
    if (proof.counted + proof.skipped != 180) fail("not everything is counted: " + proof.to_json().dump());
    // One line: what the old coordinator has as committed, the one who ended the run has, too.
    if (winner_ == &spare_) {
      int64_t limit = INT64_MAX;
      const std::vector<LedgerRecord> others = records_of(main_);
      for (size_t i = others.size(); i-- > 0;) {
        const LedgerRecord& mine = others[i];
        if (mine.kind == LedgerRecord::Kind::voided) limit = std::min(limit, mine.round);
        if (mine.kind != LedgerRecord::Kind::round || mine.round > limit) continue;
        const bool known = std::any_of(records.begin(), records.end(), [&](const LedgerRecord& r) {
          return r.kind == LedgerRecord::Kind::round && r.round == mine.round && r.hash == mine.hash;
        });
        if (!known) fail("two lines: the old coordinator committed round " + std::to_string(mine.round) + ", which the standby never had");
      }
    }
    int64_t last = -1;
    for (const auto& node : workers_)
      if (node->last) last = std::max(last, node->last_round);
    Contents expected(60);
    int64_t limit = last;
    for (size_t i = records.size(); i-- > 0;) {
      const LedgerRecord& record = records[i];
      if (record.kind == LedgerRecord::Kind::voided) limit = std::min(limit, record.round);
      if (record.kind != LedgerRecord::Kind::round || record.round > limit) continue;
      for (const Share& share : record.shares)
        for (const Range& range : share.ranges) expected.add(range, 60);
    }
    for (const auto& node : workers_)
      if (node->last && node->last_round == last && node->last->sums != expected.sums)
        fail("worker " + std::to_string(node->number) + " holds what the ledger does not explain");
    if (last < 0) ++outcome_.reached["all workers died before they heard of the end"];
  }

  SeededRng rng_;
  Network network_;
  bool trace_;
  std::string averaging_;
  int standby_host_ = 1;
  uint64_t start_ns_ = network_.now_ns();
  double quiet_ms_ = 0;
  Site main_{*this}, spare_{*this};
  Site* winner_ = nullptr;
  uint64_t stopped_ns_ = 0;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  StandbyOutcome outcome_;
};

}  // namespace

StandbyOutcome simulate_standby(uint64_t seed, bool trace) { return StandbyWorld(seed, trace).run(); }

}  // namespace perigee::sim
