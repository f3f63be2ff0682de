// Synchronous steps: every member computes the gradient of its leaves of a fixed plan, which all know from StartEpoch, and takes part in every
// exchange. No message says that a round begins.
#pragma once

#include <vector>

#include "cluster/ledger/fixed_plan.h"
#include "cluster/rounds/worker_rounds.h"

namespace perigee {

class SynchronousSteps final : public ExchangedRounds {
 public:
  using ExchangedRounds::ExchangedRounds;

  void on_start_epoch() override;
  void resume() override;
  void stop(bool keep) override;
  void after_exchange(const Exchange& exchange) override;
  void on_contribution(const TrainOrder& order, const Contribution& contribution, double worked_s) override;
  void on_bucket(int64_t round, uint32_t bucket) override;
  void on_parts_over(int64_t round) override;
  void on_payload_refused(int64_t round, size_t payload) override;

 protected:
  void train() override;
  bool computes() const override { return ExchangedRounds::computes() || makes_part_; }
  bool may_apply() const override;
  ApplyOrder result() override;
  void add_times(Figures* figures, uint64_t now) override;
  bool waits_after(int64_t round) override;

 private:
  void prepare();
  void start_bucket(uint32_t bucket);
  // With a codec (worker_coded.cpp): either each sends a payload, or sums are made in several passes.
  bool coded() const;
  bool in_passes() const;
  int64_t planned_examples(size_t rank) const;
  void give_payloads(Exchange::Setup* setup) const;
  std::vector<Payload> payloads() const;
  void blame_payload(int64_t round, size_t payload);
  void ask_for_pass();
  void on_pass(int64_t round, uint32_t bucket);
  bool awaits_part(int64_t round) const;

  FixedPlan plan_;
  FixedPlan::Round planned_;         // the round being computed
  std::vector<bool> bucket_staged_;  // all true once the contribution is known to be finite
  size_t buckets_staged_ = 0;
  int next_pass_ = 1;  // to be asked for
  bool makes_part_ = false;
  int refused_alone_ = 0;  // payloads of its own
};

}  // namespace perigee
