// Records how a process spends its time, span by span, for `--trace`. Threads put spans into a ring whose places are allocated
// before the first span. Recording allocates nothing and never waits; spans without room are counted. One thread takes them out.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace perigee {

enum class TracePhase : uint8_t {
  open,      // data opened, network built
  load,      // the trainer waits for a batch
  read,      // a thread of the loader reads one
  compute,   // forward and backward
  exchange,  // hooks that replace the gradient
  update,    // of the parameters by the optimiser
  encode,    // a contribution is staged for the exchange
  wait,      // for other workers or the coordinator
  transfer,  // the exchange between workers, as far as it does not run beside the computing
  apply,     // the result becomes the parameters
  forming,   // a change of membership
  heal,      // an image from another worker
  evaluate,
  checkpoint,  // or an image of the parameters
};
inline constexpr size_t kTracePhases = static_cast<size_t>(TracePhase::checkpoint) + 1;
const char* to_string(TracePhase phase);

// Rows of a process in the timeline; threads of the loader are kLoaderRow and above.
inline constexpr uint8_t kTrainerRow = 1, kLoopRow = 2, kLoaderRow = 3;

struct PhaseSpan {
  uint64_t begin_ns = 0, end_ns = 0;  // of the monotonic clock
  int64_t round = -1;                 // or step; -1: of none
  int64_t count = 0;                  // examples; of a transfer, bytes sent
  TracePhase phase = TracePhase::open;
  uint8_t row = kTrainerRow;
};

// The clock of the cluster's loop, too.
uint64_t monotonic_ns();

class TraceRing {
 public:
  static constexpr size_t kPlaces = 16384;       // 100 ms of 160 spans per ms
  static constexpr uint64_t kShortestNs = 1000;  // what is shorter is not worth a line of the trace

  TraceRing() = default;
  TraceRing(const TraceRing&) = delete;
  TraceRing& operator=(const TraceRing&) = delete;

  void turn_on();  // by one thread, at most once
  bool on() const { return on_.load(std::memory_order_acquire); }
  // Any thread. Does nothing while off.
  void add(const PhaseSpan& span) {
    if (on() && span.end_ns - span.begin_ns >= kShortestNs) put(span);
  }
  // One thread: the oldest spans, as many as fit; how many.
  size_t take(std::span<PhaseSpan> out);
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  // Each place has a turn: 2n when it is to be written in lap n, 2n + 1 when it then holds a span.
  struct Place {
    std::atomic<uint64_t> turn{0};
    PhaseSpan span;
  };
  void put(const PhaseSpan& span);

  std::unique_ptr<std::array<Place, kPlaces>> places_;
  std::atomic<bool> on_{false};
  std::atomic<uint64_t> next_{0}, dropped_{0};
  uint64_t taken_ = 0;
};

// The sums of one thread's phases, always kept, and each span in a ring when there is one that is on: one measuring point for the table
// at the end of a run and for the timeline.
class PhaseTimes {
 public:
  explicit PhaseTimes(TraceRing* ring = nullptr, uint8_t row = kTrainerRow) : ring_(ring), row_(row) {}

  int64_t round = -1;  // of the spans from now on

  void add(TracePhase phase, uint64_t begin_ns, uint64_t end_ns, int64_t count = 0) {
    total_ns_[static_cast<size_t>(phase)] += end_ns - begin_ns;
    if (ring_) ring_->add({.begin_ns = begin_ns, .end_ns = end_ns, .round = round, .count = count, .phase = phase, .row = row_});
  }
  double seconds(TracePhase phase) const { return static_cast<double>(total_ns_[static_cast<size_t>(phase)]) * 1e-9; }

 private:
  TraceRing* ring_;
  uint8_t row_;
  std::array<uint64_t, kTracePhases> total_ns_{};
};

// From its making to its end.
class PhaseScope {
 public:
  PhaseScope(PhaseTimes& times, TracePhase phase, int64_t count = 0)
      : times_(times), phase_(phase), count_(count), begin_ns_(monotonic_ns()) {}
  ~PhaseScope() { times_.add(phase_, begin_ns_, monotonic_ns(), count_); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  PhaseTimes& times_;
  TracePhase phase_;
  int64_t count_;
  uint64_t begin_ns_;
};

}  // namespace perigee
