// Rounds of a parameter server as the coordinator sees them: workers push to the server by themselves, and what it says it has made is
// booked here, in its order. Only the server is a holder of results. What workers hold is a base that they train from: it must be of the
// committed line, or they begin afresh.
#pragma once

#include <string>
#include <vector>

#include "cluster/rounds/coordinator_rounds.h"
#include "cluster/rounds/work_leases.h"

namespace perigee {

class ServerCoordinator final : public CoordinatorRounds {
 public:
  explicit ServerCoordinator(CoordinatorCore& core) : CoordinatorRounds(core), leases_(core) {}

  std::string why_not(const Join& join) const override;
  bool lacks_server() const override;
  bool holds_results(const Node& node) const override;
  bool calm() const override { return true; }
  bool may_keep_work(const Node& node) const override;
  void admit(Node& node) override;

  void open_round() override;
  Received on_frame(Node& node, const FrameHeader& header, std::span<const std::byte> payload) override;
  void advance() override { leases_.top_up_all(); }
  void top_up_all() override { leases_.top_up_all(); }

 protected:
  void on_ready(Node& node, const FrameHeader& header, Ready ready) override;

 private:
  bool base_is_committed(const Node& node) const;
  void begin_afresh(Node& node);
  void on_served(Node& node, const FrameHeader& header, Served served);
  WorkerId claims_too_much(const Served& served) const;
  void book_shares(const Served& served);
  void after_commit(const std::vector<Share>& shares);

  WorkLeases leases_;
};

}  // namespace perigee
