#include "cluster/membership/agent.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <thread>

#include "cluster/membership/coordinator.h"
#include "cluster/membership/votes.h"
#include "cluster/planted.h"
#include "src/core/cores.h"
#include "src/core/error.h"
#include "src/device/gpu.h"

namespace perigee {
namespace {

constexpr uint64_t kTimer = 1;  // the one timer: of the earliest thing that is due
constexpr size_t kMaxJobs = 64;
constexpr size_t kMaxPeers = 1024;
constexpr uint64_t kNever = ~uint64_t{0};

uint64_t agent_ns(double ms) { return static_cast<uint64_t>(ms * 1e6); }

// Exit codes after which another try would end alike: bad usage, data, model, credentials; and the quiet ends.
bool final_code(int code) {
  return code == 0 || code == static_cast<int>(ErrorKind::usage) || code == static_cast<int>(ErrorKind::data) ||
         code == static_cast<int>(ErrorKind::model) || code == static_cast<int>(ErrorKind::authentication) || code == 130 || code == 143;
}

}  // namespace

struct Agent::Impl {
  struct Slot {
    WorkerProcess process;
    uint32_t number = 0;           // 0: not running
    bool over = false;             // will not be started again
    uint64_t start_ns = kNever;    // when it is to be started again
    std::deque<uint64_t> crashes;  // within the window, since it has trained last
    uint64_t restarts = 0;
  };
  struct JobState {
    std::string name, coordinator, key;
    PeerId launcher = 0;
    uint64_t generation = 0;    // of the coordinator that owns it
    uint64_t lost_ns = kNever;  // since when there is no launcher
    bool stopping = false;
    uint64_t kill_ns = kNever;
    std::vector<Slot> slots;
  };

  AgentOptions options;
  Clock& clock;
  Rng& rng;
  Transport& transport;
  Processes& processes;
  std::map<uint64_t, JobState> jobs;
  std::set<PeerId> peers;
  bool stopping = false;
  uint64_t malformed = 0, restarts = 0, gave_up = 0;

  template <class M>
  void send(PeerId peer, uint64_t job, const M& message) {
    if (peer == 0) return;
    const std::vector<std::byte> frame = encode(message, FrameHeader{.type = M::kType, .job = job});
    transport.send(peer, frame);  // a full queue loses news, not work: status tells it all again
  }

  uint32_t running() const {
    uint32_t count = 0;
    for (const auto& [id, job] : jobs)
      for (const Slot& slot : job.slots) count += slot.number != 0;
    return count;
  }

  uint32_t taken() const {
    uint32_t count = 0;
    for (const auto& [id, job] : jobs)
      for (const Slot& slot : job.slots) count += !slot.process.standby && (!slot.over || slot.number != 0);
    return count;
  }

  uint32_t free_slot() const {
    std::set<uint32_t> used;
    for (const auto& [id, job] : jobs)
      for (const Slot& slot : job.slots)
        if (!slot.process.standby) used.insert(slot.process.slot);
    uint32_t slot = 0;
    while (used.contains(slot)) ++slot;
    return slot;
  }

  // ---- the launcher's requests ----

  void on_start(PeerId peer, uint64_t id, const Start& start) {
    Started answer{.name = options.name};
    const auto refuse = [&](std::string why) {
      answer.error = std::move(why);
      send(peer, id, answer);
    };
    if (stopping) return refuse("the agent is ending");
    if (start.version != PERIGEE_VERSION)
      return refuse("the agent is Perigee " PERIGEE_VERSION ", the launcher " + start.version + "; install the same version on both");
    if (start.coordinator.empty()) return refuse("the request names no coordinator");  // no key: workers of a run on loopback
    if (const auto found = jobs.find(id); found != jobs.end() && !found->second.stopping) return adopt(peer, id, found->second, start);
    if (jobs.contains(id)) return refuse("workers of this job are still ending; try again in a few seconds");
    if (jobs.size() >= kMaxJobs)
      return refuse("the agent already has " + std::to_string(jobs.size()) + " jobs; end one of them, or ask another agent");
    const uint32_t free = options.slots - std::min(options.slots, taken());
    const uint32_t wanted = !start.works ? 0 : start.workers > 0 ? start.workers : 1;  // one process uses every core
    if (wanted > free)
      return refuse(std::to_string(wanted) + " workers were asked for, but only " + std::to_string(free) + " of the agent's " +
                    std::to_string(options.slots) + " slots are free; start it with a larger --slots, or ask for fewer");
    JobState& job = jobs[id];
    job = {.name = start.job_name, .coordinator = start.coordinator, .key = start.key, .launcher = peer, .generation = start.generation};
    const uint32_t cores = static_cast<uint32_t>(available_cores());
    const uint32_t threads = start.threads > 0 ? start.threads : std::max(1u, cores / std::max(1u, wanted));
    std::string error;
    for (uint32_t i = 0; i < wanted + start.stands_by && error.empty(); ++i) {
      const bool standby = i == wanted;
      const uint32_t place = standby ? 0 : free_slot();
      Slot slot{.process = {.name = options.name + (standby ? "/standby" : "/" + std::to_string(place)),
                            .coordinator = start.coordinator,
                            .key = start.key,
                            .threads = threads,
                            .job = id,
                            .slot = place,
                            .standby = standby}};
      job.slots.push_back(slot);
      job.slots.back().number = processes.start(slot.process, &error);
      answer.workers += job.slots.back().number != 0 && !standby;
    }
    if (!error.empty()) {
      end_job(job);
      if (running_of(job) == 0) jobs.erase(id);
      answer.workers = 0;
      return refuse(error);
    }
    send(peer, id, answer);
  }

  // The launcher has lost its connection, or is another process that continues the same run, or the standby that took over.
  void adopt(PeerId peer, uint64_t id, JobState& job, const Start& start) {
    if (term_of(start.generation) < term_of(job.generation))
      return send(peer, id, Started{.name = options.name, .error = kSuperseded + std::string("; it is at ") + job.coordinator});
    // Workers know where the standby is, and go there by themselves, with what they hold.
    const bool taken_over = term_of(start.generation) > term_of(job.generation);
    job.launcher = peer;
    job.lost_ns = kNever;
    job.generation = start.generation;
    const bool moved = !taken_over && (job.coordinator != start.coordinator || job.key != start.key);
    job.coordinator = start.coordinator;
    job.key = start.key;
    Started answer{.name = options.name};
    for (Slot& slot : job.slots) {
      if (slot.process.standby && taken_over) {  // it is the coordinator now, and ends by itself
        slot.over = true;
        continue;
      }
      slot.process.coordinator = start.coordinator;
      slot.process.key = start.key;
      if (slot.number != 0 && moved) processes.stop(slot.number, true);  // it would look for the old coordinator; it is started again
      if (slot.number == 0 && slot.start_ns == kNever) {
        slot.over = false;
        slot.crashes.clear();
        slot.start_ns = clock.now_ns();
      }
      answer.workers += !slot.process.standby;
    }
    send(peer, id, answer);
    arm();
  }

  static uint32_t running_of(const JobState& job) {
    uint32_t count = 0;
    for (const Slot& slot : job.slots) count += slot.number != 0;
    return count;
  }

  // The standby that took over is who asks for the end.
  bool ends_by_itself(const JobState& job, const Slot& slot) const {
    return slot.process.standby && term_of(job.generation) > 0 && !stopping;
  }

  void end_job(JobState& job) {
    if (!job.stopping) job.kill_ns = clock.now_ns() + agent_ns(options.grace_ms);
    job.stopping = true;
    for (Slot& slot : job.slots) {
      slot.over = true;
      slot.start_ns = kNever;
      if (slot.number != 0 && !ends_by_itself(job, slot)) processes.stop(slot.number, false);
    }
    arm();
  }

  void stop() {
    stopping = true;
    std::vector<uint64_t> ids;
    for (auto& [id, job] : jobs) {
      end_job(job);
      ids.push_back(id);
    }
    for (const uint64_t id : ids) forget_if_over(id);
  }

  // ---- the end of a process ----

  void on_exited(uint32_t number, int code, int signal, const std::string& tail) {
    for (auto& [id, job] : jobs)
      for (Slot& slot : job.slots) {
        if (slot.number != number) continue;
        slot.number = 0;
        Exited told{.name = slot.process.name,
                    .pid = number,
                    .code = code,
                    .signal = signal,
                    .standby = slot.process.standby,
                    .tail = tail.substr(0, kMaxText)};
        told.respawned = may_restart(job, slot, code, signal, &told.next);
        slot.process.op_by_op = tail.find(kOpByOp) != std::string::npos;
        if (told.respawned) told.next = schedule(slot);
        else slot.over = true;
        const uint64_t job_id = id;
        send(job.launcher, job_id, told);
        forget_if_over(job_id);
        return;
      }
    assert(false && "the end of a process that was not started here");
  }

  bool may_restart(const JobState& job, Slot& slot, int code, int signal, std::string* why) {
    if (stopping || job.stopping || slot.over) return false;
    if (signal == 0 && final_code(code)) return false;
    // There is no coordinator for which it could train.
    if (job.launcher == 0 && clock.now_ns() - job.lost_ns >= agent_ns(options.launcher_silent_ms)) return false;
    const uint64_t now = clock.now_ns();
    slot.crashes.push_back(now);
    while (!slot.crashes.empty() && slot.crashes.front() + agent_ns(options.window_s * 1e3) < now) slot.crashes.pop_front();
    assert(slot.crashes.size() <= options.restarts + 1);
    if (slot.crashes.size() <= options.restarts) return true;
    ++gave_up;
    *why = "it is not started again after " + failures_of(slot) + "; --restarts allows more";
    return false;
  }

  std::string failures_of(const Slot& slot) const {
    return std::to_string(slot.crashes.size()) + (slot.crashes.size() == 1 ? " failure" : " failures") + " in " +
           std::to_string(static_cast<int64_t>(options.window_s)) + " s without training";
  }

  // Its worker has trained: what befell it before no longer says that it never will.
  void on_trained(PeerId peer, uint64_t id, const std::string& name) {
    const auto found = jobs.find(id);
    if (found == jobs.end() || found->second.launcher != peer || planted(Bug::failures_kept)) return;
    for (Slot& slot : found->second.slots)
      if (slot.process.name == name && slot.number != 0) slot.crashes.clear();
  }

  // Twice as long after each crash in the window, with jitter, so that workers that fall together do not come back together.
  std::string schedule(Slot& slot) {
    const double doubled = options.backoff_ms * static_cast<double>(uint64_t{1} << std::min<size_t>(slot.crashes.size() - 1, 20));
    const double jitter = 0.75 + 0.5 * static_cast<double>(rng.next() >> 11) * 0x1p-53;
    const double pause_ms = std::min(doubled, options.backoff_max_ms) * jitter;
    slot.start_ns = clock.now_ns() + agent_ns(pause_ms);
    ++slot.restarts;
    ++restarts;
    arm();
    std::string next = "it is started again";
    if (slot.crashes.size() > 1)
      next += " in " + std::to_string(static_cast<int64_t>(pause_ms)) + " ms, after " + failures_of(slot) + " of at most " +
              std::to_string(options.restarts);
    return next;
  }

  void start_again(JobState& job, Slot& slot) {
    assert(slot.number == 0 && !slot.over);
    slot.start_ns = kNever;
    std::string error;
    slot.number = processes.start(slot.process, &error);
    if (slot.number != 0) return;
    slot.crashes.push_back(clock.now_ns());
    if (slot.crashes.size() <= options.restarts) return static_cast<void>(schedule(slot));
    slot.over = true;
    ++gave_up;
    Exited told{.name = slot.process.name,
                .code = static_cast<int>(ErrorKind::resources),
                .standby = slot.process.standby,
                .tail = error.substr(0, kMaxText),
                .next = "it is not started again after " + failures_of(slot) + "; --restarts allows more"};
    for (const auto& [id, each] : jobs)
      if (&each == &job) send(job.launcher, id, told);
  }

  // A job without processes that is ending, or that no launcher asks for any more.
  void forget_if_over(uint64_t id) {
    const auto found = jobs.find(id);
    if (found == jobs.end() || running_of(found->second) > 0) return;
    const JobState& job = found->second;
    const bool waits = std::any_of(job.slots.begin(), job.slots.end(), [](const Slot& slot) { return slot.start_ns != kNever; });
    if (job.stopping || (job.launcher == 0 && !waits)) jobs.erase(found);
  }

  // ---- time ----

  void arm() {
    uint64_t next = kNever;
    for (const auto& [id, job] : jobs) {
      if (job.kill_ns != kNever && running_of(job) > 0) next = std::min(next, job.kill_ns);
      for (const Slot& slot : job.slots) next = std::min(next, slot.start_ns);
    }
    if (next == kNever) transport.stop_timer(kTimer);
    else transport.start_timer(kTimer, next);
  }

  void on_timer() {
    const uint64_t now = clock.now_ns();
    std::vector<uint64_t> ids;
    for (const auto& [id, job] : jobs) ids.push_back(id);
    for (const uint64_t id : ids) {
      JobState& job = jobs.at(id);
      if (job.kill_ns <= now) {
        job.kill_ns = kNever;
        for (Slot& slot : job.slots)
          if (slot.number != 0 && !ends_by_itself(job, slot)) processes.stop(slot.number, true);
      }
      for (Slot& slot : job.slots)
        if (slot.start_ns <= now) start_again(job, slot);
      forget_if_over(id);
    }
    arm();
  }

  Json status() const {
    Json list = Json::array();
    for (const auto& [id, job] : jobs) {
      Json workers = Json::array();
      for (const Slot& slot : job.slots)
        workers.push(Json(Json::Object{{"name", slot.process.name},
                                       {"state", slot.number != 0 ? "running"
                                                 : slot.over      ? "over"
                                                                  : "waits to be started again"},
                                       {"standby", slot.process.standby},
                                       {"threads", static_cast<int64_t>(slot.process.threads)},
                                       {"restarts", static_cast<int64_t>(slot.restarts)}}));
      list.push(Json(Json::Object{{"job", job.name},
                                  {"coordinator", job.coordinator},
                                  {"launcher", job.launcher != 0 ? "connected" : "lost"},
                                  {"stopping", job.stopping},
                                  {"workers", std::move(workers)}}));
    }
    return Json(Json::Object{{"role", "agent"},
                             {"name", options.name},
                             {"version", PERIGEE_VERSION},
                             {"slots", static_cast<int64_t>(options.slots)},
                             {"stopping", stopping},
                             {"running", static_cast<int64_t>(running())},
                             {"restarts", static_cast<int64_t>(restarts)},
                             {"gave_up", static_cast<int64_t>(gave_up)},
                             {"malformed", static_cast<int64_t>(malformed)},
                             {"jobs", std::move(list)}});
  }

  void reject(PeerId peer) {
    ++malformed;
    peers.erase(peer);
    lose_launcher(peer);
    transport.close(peer);
  }

  void lose_launcher(PeerId peer) {
    std::vector<uint64_t> orphaned;
    for (auto& [id, job] : jobs)
      if (job.launcher == peer) {
        job.launcher = 0;
        job.lost_ns = clock.now_ns();
        orphaned.push_back(id);
      }
    for (const uint64_t id : orphaned) forget_if_over(id);
  }

  void on_frame(PeerId peer, std::span<const std::byte> frame) {
    FrameHeader header;
    if (!read_header(frame, &header)) return reject(peer);
    if (header.protocol != kProtocol) {
      send(peer, header.job,
           Refuse{.kind = static_cast<uint16_t>(ErrorKind::cluster),
                  .what = "the other side speaks another version of the protocol",
                  .got = std::to_string(header.protocol),
                  .expected = std::to_string(kProtocol),
                  .hint = "install the same version of Perigee on all machines (this agent: " PERIGEE_VERSION ")"});
      return reject(peer);
    }
    const std::span<const std::byte> payload = frame.subspan(kHeaderBytes);
    switch (header.type) {
      case MessageType::start: {
        Start start;
        if (!decode(payload, &start)) return reject(peer);
        return on_start(peer, header.job, start);
      }
      case MessageType::status: {
        Status status_request;
        if (!decode(payload, &status_request)) return reject(peer);
        return send(peer, header.job, Report{.json = status().dump()});
      }
      case MessageType::stop: {
        Stop stop_request;
        if (!decode(payload, &stop_request)) return reject(peer);
        if (header.job == 0) return stop();  // of the whole machine; only who has the secret comes so far
        const auto found = jobs.find(header.job);
        if (found == jobs.end() || found->second.launcher != peer) return;  // another one owns it by now
        end_job(found->second);
        return forget_if_over(header.job);
      }
      case MessageType::started: {
        Started trained;
        if (!decode(payload, &trained)) return reject(peer);
        return on_trained(peer, header.job, trained.name);
      }
      case MessageType::beat: {
        Beat beat;
        if (!decode(payload, &beat)) return reject(peer);
        return send(peer, header.job, Beat{.sent_ns = clock.now_ns(), .echo_ns = beat.sent_ns});
      }
      default: return reject(peer);
    }
  }
};

void read_restarts(const std::string& text, const std::string& where, AgentOptions* options) {
  const size_t slash = text.find('/');
  char *after_count = nullptr, *after_period = nullptr;
  const unsigned long long count = std::strtoull(text.c_str(), &after_count, 10);
  const double period = slash == std::string::npos ? 0 : std::strtod(text.c_str() + slash + 1, &after_period);
  const std::string unit = after_period ? after_period : "-";
  const double seconds = unit.empty() || unit == "s" ? period : unit == "m" ? 60 * period : unit == "h" ? 3600 * period : 0;
  const bool counted =
      slash != std::string::npos && text[0] >= '0' && text[0] <= '9' && after_count == text.c_str() + slash && count <= 1'000'000;
  if (!counted || !(seconds >= 1 && seconds <= 1e6))
    throw Error(ErrorKind::usage, {.where = where,
                                   .what = "is not a number of restarts in a time",
                                   .got = "'" + text + "'",
                                   .expected = "N/PERIOD, as in 5/60s, 20/10m or 0/1h"});
  options->restarts = static_cast<uint32_t>(count);
  options->window_s = seconds;
}

Agent::Agent(AgentOptions options, Clock& clock, Rng& rng, Transport& transport, Processes& processes)
    : impl_(std::make_unique<Impl>(
          Impl{.options = std::move(options), .clock = clock, .rng = rng, .transport = transport, .processes = processes})) {
  if (impl_->options.slots == 0) impl_->options.slots = static_cast<uint32_t>(available_cores());
}

Agent::~Agent() = default;

void Agent::on_exited(uint32_t process, int code, int signal, const std::string& tail) { impl_->on_exited(process, code, signal, tail); }

void Agent::stop() { impl_->stop(); }
bool Agent::stopping() const { return impl_->stopping; }

size_t Agent::processes() const { return impl_->running(); }
Json Agent::status() const { return impl_->status(); }

void Agent::on_connected(PeerId peer, const std::string&) {
  if (impl_->peers.size() >= kMaxPeers) impl_->transport.close(peer);
  else impl_->peers.insert(peer);
}

void Agent::on_frame(PeerId peer, std::span<const std::byte> frame) {
  if (impl_->peers.contains(peer)) impl_->on_frame(peer, frame);
}

void Agent::on_lost(PeerId peer, PeerLoss) {
  impl_->peers.erase(peer);
  impl_->lose_launcher(peer);
}

void Agent::on_timer(uint64_t timer) {
  assert(timer == kTimer);
  static_cast<void>(timer);
  impl_->on_timer();
}

void Agent::on_writable(PeerId) {}

}  // namespace perigee
