// Local-SGD rounds as the coordinator sees them: workers that have staged a contribution say so, and once enough have, Begin says who takes
// part with what weight. coordinator_adapt.cpp: the pace of the next rounds, and contributions that are left out.
#pragma once

#include <string>
#include <vector>

#include "cluster/ledger/ledger.h"
#include "cluster/rounds/coordinator_rounds.h"
#include "cluster/rounds/work_leases.h"

namespace perigee {

class LocalCoordinator final : public ExchangedCommits {
 public:
  explicit LocalCoordinator(CoordinatorCore& core) : ExchangedCommits(core), leases_(core) {}

  bool calm() const override { return !begun_; }
  void on_propose() override;
  void on_all_formed() override;
  void on_losing(const Node& node) override;
  bool may_keep_work(const Node& node) const override;

  void open_round() override;
  Received on_frame(Node& node, const FrameHeader& header, std::span<const std::byte> payload) override;
  void advance() override;
  void top_up_all() override { leases_.top_up_all(); }
  void on_grace() override { check_begin(); }
  bool begun() const override { return begun_; }
  void forgive(const std::function<void(uint64_t&)>& later) override;

 protected:
  void on_ready(Node& node, const FrameHeader& header, Ready ready) override;
  std::vector<Share> shares() const override { return begin_.shares; }
  bool workers_wait() const override { return begin_.evaluate || begin_.last; }
  void on_closing(const std::vector<Share>& shares) override { adapt(shares); }
  bool is_booked() const override;
  bool in_exchange() const override { return begun_; }
  std::vector<WorkerId> late_to_begin(uint64_t now) const override;

 private:
  void leave_out(Node& node, const std::vector<Range>& announced, const char* as, const std::string& what);
  size_t quorum() const;
  void check_begin();
  LeasePool after_round(const std::vector<WorkerId>& who) const;
  bool is_last(const LeasePool& after) const;
  void begin(const std::vector<WorkerId>& who);
  // Examples of local work that others hold part of, or may: booked from above (policies with groups).
  void note_inexact(const Node& node, std::vector<Range> ranges, const std::string& why);

  // ---- coordinator_adapt.cpp ----
  bool leave_out_outlying(const std::vector<WorkerId>& who);  // true: some are, and the round has not begun
  void note_sizes(const std::vector<WorkerId>& who);
  void adapt(const std::vector<Share>& shares);

  WorkLeases leases_;
  bool begun_ = false;
  Begin begin_;
  size_t ready_said_ = 0;  // Ready heard in this round: no fewer than there are
  uint64_t first_ready_ns_ = 0, quorum_ns_ = 0;
};

}  // namespace perigee
