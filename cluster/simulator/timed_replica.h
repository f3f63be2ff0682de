// A trainer that takes the time of a real one on the simulated clock, and moves as many bytes. What it computes, if anything, is its
// ReplicaNumbers'.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cluster/replica/replica.h"
#include "cluster/simulator/network/network.h"
#include "cluster/simulator/replica_numbers.h"

namespace perigee::sim {

// How long a node of median speed takes.
struct StepTimes {
  double step_ms = 0;   // of `batch` examples: forward, backward, and the update
  double stage_ms = 0;  // to make a contribution of local steps ready for the exchange
  double apply_ms = 0;  // of a round's result; served: of a contribution, by the server
  double take_ms = 0;   // served: to take over what the server has
  int64_t batch = 1;
};

// One node, over all its lives.
struct WorkDone {
  double slowness = 1;  // its times are those of StepTimes multiplied by this
  double lossy = 0;     // share of its contributions of local steps that come to nothing
  uint64_t computing_ns = 0;
  int64_t pending = 0;  // examples trained that are in no result it knows of
  int64_t lost = 0;     // examples trained that never will be
  uint64_t first_order_ns = 0;
  void lose() { lost += pending, pending = 0; }
};

class TimedReplica final : public Replica {
 public:
  TimedReplica(const StepTimes& times, std::unique_ptr<ReplicaNumbers> numbers, WorkDone& work, Network& network, int process);
  void set_events(ReplicaEvents* events) { events_ = events; }

  void open(const Welcome& welcome) override;
  ExchangeLayout layout() const override { return numbers_->layout(); }
  const std::vector<Bucket>& buckets() const override { return numbers_->buckets(); }
  ExchangeLayout inner_layout() const override { return numbers_->inner_layout(); }
  std::span<std::byte> exchange_row(size_t row) override { return numbers_->exchange_row(row); }
  void train(const TrainOrder& order) override;
  void make_part(const PartOrder& order) override;
  void apply(const ApplyOrder& order) override;
  void serve(const ApplyOrder& order) override;
  void take(const TakeOrder& order) override;
  void apply_inner(const InnerApplyOrder& order) override;
  void load(int64_t round, SharedBytes image, bool keep_local) override;
  void snapshot(uint64_t request, bool with_optimizer) override;
  void evaluate(const Evaluate& order) override;
  std::span<const FragmentPart> fragments() const override { return numbers_->fragments(); }
  void unstage() override;
  void drop() override;
  int64_t steps() const override { return steps_; }
  int64_t evaluated() const override { return 0; }  // answers at once

 private:
  struct Training {
    TrainOrder order;
    size_t step = 0;      // ranges done
    uint32_t bucket = 0;  // announced
    uint64_t begun_ns = 0;
    double compute_ms = 0;
    std::optional<Contribution> contribution;  // once it is complete
    bool waits = false;                        // for the result of the contribution before
  };
  double step_ms(int64_t examples) const;
  void later(double ms, std::function<void()> what);
  void compute(double ms, uint64_t token, void (TimedReplica::*then)());
  void begin();
  void compute_step(bool last);
  void step_done();
  void go_on();
  void apply_now(const ApplyOrder& order);
  void bucket_done();
  void contribute();

  const StepTimes& times_;
  std::unique_ptr<ReplicaNumbers> numbers_;
  WorkDone& work_;
  Network& network_;
  int process_;
  ReplicaEvents* events_ = nullptr;
  int64_t steps_ = 0;
  bool staged_ = false;         // local steps, in no result yet
  int64_t staged_pending_ = 0;  // of the examples trained, those
  int64_t late_ = 0;            // steps of an overlapped order before a result is taken
  std::function<void()> held_;  // a result that came earlier
  double repeated_ms_ = 0;      // of the last gradient, without slowness: each sum that follows it in its round takes as long
  uint64_t free_at_ns_ = 0;     // the trainer does one thing at a time, in order
  uint64_t token_ = 0;          // of the training order under way; a new number when it is given up
  std::unique_ptr<Training> training_;
};

}  // namespace perigee::sim
