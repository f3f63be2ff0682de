// The coordinator's own work per round with many workers: `coordinator_bench [workers] [rounds]`. The workers are stubs that answer at
// once, and only time within the coordinator's calls is counted. Bar: under 50 ms of CPU per round with 1000 workers.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>
#include <string>

#include "cluster/membership/coordinator.h"
#include "src/core/json.h"

using namespace perigee;

namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Memory final : LedgerStore {
  bool append(std::span<const std::byte> record) override { return bytes.insert(bytes.end(), record.begin(), record.end()), true; }
  bool sync() override { return true; }
  std::vector<std::byte> read() override { return bytes; }
  std::vector<std::byte> bytes;
};

struct Fixed final : Rng {
  uint64_t next() override { return ++state; }
  uint64_t state = 0;
};

// All of the world: a clock that moves when nothing else is to be done, and a worker behind each peer.
class Stubs final : public Clock, public Transport, public CoordinatorEvents {
 public:
  uint64_t now_ns() const override { return now_; }
  PeerId connect(const std::string&, uint64_t) override { return 0; }
  bool send(PeerId peer, std::span<const std::byte> head, std::span<const std::byte>) override {
    FrameHeader header;
    read_header(head, &header);
    bytes += head.size();
    inbox_.push_back({peer, header, {}});
    if (header.type == MessageType::lease || header.type == MessageType::welcome) inbox_.back().frame.assign(head.begin(), head.end());
    return true;
  }
  void close(PeerId) override {}
  void start_timer(uint64_t timer, uint64_t deadline_ns) override { timers_[timer] = deadline_ns; }
  void stop_timer(uint64_t timer) override { timers_.erase(timer); }

  void on_round(int64_t, uint64_t, int64_t, int, const Figures&, int64_t) override { ++rounds; }
  void on_epoch(uint64_t) override { epoch_ = true; }
  void on_evaluated(const std::string&, const std::vector<std::string>&) override {}
  void on_image(uint64_t, int64_t, std::vector<std::byte>) override {}
  void on_event(const Json&) override {}
  void on_finished(int64_t) override { finished = true; }
  void on_reopened() override {}
  void on_failed(const Error& error) override { std::printf("%s\n", error.what()), std::exit(1); }

  void run(Coordinator& coordinator, int64_t until_rounds) {
    coordinator_ = &coordinator;
    while (rounds < until_rounds && !finished) {
      if (!inbox_.empty()) {
        const Sent sent = std::move(inbox_.front());
        inbox_.pop_front();
        answer(sent);
      } else if (epoch_) {
        epoch_ = false;
        timed([&] { coordinator.release(); });
      } else {
        auto next = timers_.begin();
        for (auto it = timers_.begin(); it != timers_.end(); ++it)
          if (it->second < next->second) next = it;
        if (next == timers_.end()) std::printf("nothing happens\n"), std::exit(1);
        const uint64_t timer = next->first;
        now_ = std::max(now_, next->second);
        timers_.erase(next);
        timed([&] { coordinator.on_timer(timer); });
        if (now_ - beat_ns_ > 400'000'000) beat();
      }
    }
  }
  void join(Coordinator& coordinator, PeerId peer) {
    coordinator_ = &coordinator;
    coordinator.on_connected(peer, "");
    tell(peer, Join{.version = PERIGEE_VERSION, .name = "host" + std::to_string(peer), .host = "host", .address = "host:1"}, {});
    workers.push_back(peer);
  }

  double seconds = 0;
  int64_t rounds = 0;
  uint64_t bytes = 0;
  bool finished = false;
  std::vector<PeerId> workers;

 private:
  struct Sent {
    PeerId peer;
    FrameHeader header;
    std::vector<std::byte> frame;
  };
  template <class Work>
  void timed(Work work) {
    const double start = cpu_seconds();
    work();
    seconds += cpu_seconds() - start;
  }
  template <class M>
  void tell(PeerId peer, const M& message, FrameHeader header) {
    header.job = job;
    const std::vector<std::byte> frame = encode(message, header);
    timed([&] { coordinator_->on_frame(peer, frame); });
  }
  void beat() {
    beat_ns_ = now_;
    for (const PeerId peer : workers) tell(peer, Beat{.sent_ns = now_, .step = rounds, .examples_per_s = 1000, .waits_for = "commit"}, {});
  }
  void answer(const Sent& sent) {
    const FrameHeader& h = sent.header;
    const auto hash = [](int64_t round) { return static_cast<uint64_t>(round + 1000); };
    std::vector<Range>& leased = leased_[sent.peer];
    switch (h.type) {
      case MessageType::welcome: return tell(sent.peer, Acknowledge{.fingerprint = 1}, h);
      case MessageType::propose: return tell(sent.peer, Acknowledge{.fingerprint = 1}, h);
      case MessageType::catch_up: return tell(sent.peer, CaughtUp{.round = -1, .hash = hash(-1)}, h);
      case MessageType::start_epoch:
        if (synchronous) tell(sent.peer, Done{.hash = hash(h.round), .examples = 32}, h);
        return;
      case MessageType::commit:
        if (synchronous) {
          FrameHeader next = h;
          next.round = h.round + 1;
          tell(sent.peer, Done{.hash = hash(next.round), .examples = 32}, next);
        } else {
          ready(sent.peer, h, h.round + 1);
        }
        return;
      case MessageType::lease: {
        Lease lease;
        decode(std::span<const std::byte>(sent.frame).subspan(kHeaderBytes), &lease);
        const bool had = leased.size() >= 4;
        leased.insert(leased.end(), lease.ranges.begin(), lease.ranges.end());
        if (!had) ready(sent.peer, h, h.round);
        return;
      }
      case MessageType::begin: return tell(sent.peer, Done{.hash = hash(h.round)}, h);
      default: return;
    }
  }
  void ready(PeerId peer, FrameHeader h, int64_t round) {
    std::vector<Range>& leased = leased_[peer];
    if (leased.size() < 4) return;
    Ready ready{.base = round - 1, .steps = 4};
    ready.ranges.assign(leased.begin(), leased.begin() + 4);
    leased.erase(leased.begin(), leased.begin() + 4);
    for (const Range& range : ready.ranges) ready.examples += range.count;
    h.round = round;
    tell(peer, ready, h);
  }

  Coordinator* coordinator_ = nullptr;
  uint64_t now_ = 1'000'000'000, beat_ns_ = 0;
  std::map<uint64_t, uint64_t> timers_;
  std::deque<Sent> inbox_;
  std::map<PeerId, std::vector<Range>> leased_;
  bool epoch_ = false;

 public:
  uint64_t job = 1;
  bool synchronous = true;
};

void measure(const std::string& policy, int workers, int64_t rounds) {
  Stubs stubs;
  Fixed rng;
  Memory ledger;
  const Json averaging = policy == "periodic" ? Json(Json::Object{{"type", "periodic"}, {"every", int64_t{4}}}) : Json(policy);
  CoordinatorOptions o;
  o.job_id = stubs.job;
  o.job = "{}";
  o.policy = read_policy(&averaging, "");
  o.examples = 60'000'000;
  o.fingerprint = 1;
  o.min_workers = workers;
  stubs.synchronous = policy == "allreduce";
  Coordinator coordinator(std::move(o), stubs, rng, stubs, ledger, stubs);
  coordinator.start();
  for (int i = 1; i <= workers; ++i) stubs.join(coordinator, static_cast<PeerId>(i));
  stubs.run(coordinator, 1);
  const double forming = stubs.seconds;
  const size_t ledger_bytes = ledger.bytes.size();
  stubs.seconds = 0;
  stubs.bytes = 0;
  stubs.run(coordinator, 1 + rounds);
  std::printf("%-10s %d workers: forming %.1f ms; per round %.3f ms of CPU, %.1f KB sent, %.0f bytes of ledger\n", policy.c_str(), workers,
              forming * 1e3, stubs.seconds * 1e3 / static_cast<double>(rounds),
              static_cast<double>(stubs.bytes) * 1e-3 / static_cast<double>(rounds),
              static_cast<double>(ledger.bytes.size() - ledger_bytes) / static_cast<double>(rounds));
}

}  // namespace

int main(int argc, char** argv) {
  const int workers = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int64_t rounds = argc > 2 ? std::atoll(argv[2]) : 20;
  measure("allreduce", workers, rounds);
  measure("periodic", workers, rounds);
  return 0;
}
