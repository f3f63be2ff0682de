// Synchronous steps as the coordinator sees them: every member takes part in every round of the fixed plan, and no message begins it.
#pragma once

#include <vector>

#include "cluster/ledger/fixed_plan.h"
#include "cluster/rounds/coordinator_rounds.h"

namespace perigee {

class StepsCoordinator final : public ExchangedCommits {
 public:
  using ExchangedCommits::ExchangedCommits;

  bool calm() const override { return false; }
  bool synchronous() const override { return true; }
  void on_start_epoch(StartEpoch* message) override;
  void open_round() override;
  Received on_frame(Node& node, const FrameHeader& header, std::span<const std::byte> payload) override;

 protected:
  void on_ready(Node& node, const FrameHeader& header, Ready ready) override;
  bool expects_done() const override { return planned_.examples > 0; }
  std::vector<Share> shares() const override;
  bool workers_wait() const override { return planned_.ends_epoch || planned_.last; }
  bool ends() const override;
  bool in_exchange() const override { return true; }

 private:
  FixedPlan plan_;
  FixedPlan::Round planned_;
};

}  // namespace perigee
