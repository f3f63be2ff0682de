// Rounds of a parameter server as the coordinator sees them: workers push to the server by themselves, and what it says it has made is
// booked here, in its order. Only the server is a holder of results. What workers hold is a base that they train from: it must be of the
// committed line, or they begin afresh. What a lost server had made since the newest image is made again by its next process, from what the
// workers have kept (coordinator_redo.cpp).
#pragma once

#include <deque>
#include <optional>
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
  void on_all_formed() override;
  bool restores() const override;
  void extend(int64_t* round, uint64_t* hash) override;
  bool heals(Node& node) override;
  bool on_healed(Node& node, const CaughtUp& healed) override;
  int64_t image_round() const override;
  void on_imaged(uint64_t asked_ns) override;
  void on_start_epoch(StartEpoch* message) override;

  void open_round() override;
  Received on_frame(Node& node, const FrameHeader& header, std::span<const std::byte> payload) override;
  void advance() override { leases_.top_up_all(); }
  void top_up_all() override { leases_.top_up_all(); }
  void check(uint64_t now) override;

 protected:
  void on_ready(Node& node, const FrameHeader& header, Ready ready) override;

 private:
  bool base_is_committed(const Node& node) const;
  void begin_afresh(Node& node);
  void on_served(Node& node, const FrameHeader& header, Served served);
  WorkerId claims_too_much(const Served& served) const;
  void book_shares(const Served& served);
  void after_commit(const std::vector<Share>& shares);

  // ---- rounds that can be made again (coordinator_redo.cpp) ----
  struct Made {
    RedoRound round;
    uint64_t bytes = 0;  // that were pushed
  };
  void remember(RedoRound round, uint64_t bytes);
  void forget_made();
  const Made* made(int64_t round) const;
  // Pushes since the newest image, by the worker that has the most to keep.
  struct Pushed {
    size_t pushes = 0, bytes = 0;
    WorkerId by = 0;
  };
  Pushed most_pushed() const;
  void tell_forgotten(const Pushed& most);
  void send_redo(Node& node);
  void tell_restored(const Node& node, int64_t round, const std::string& done);

  WorkLeases leases_;
  std::deque<Made> made_;  // since the newest image, without gaps
  uint64_t made_bytes_ = 0;
  bool image_wanted_ = false;  // some of what was made since the newest image cannot be made again
  bool told_forgotten_ = false;
  uint64_t imaged_ns_ = 0, image_cost_ns_ = 0;
  std::optional<int64_t> redo_from_;  // while a generation forms: the server has this, and makes what follows again
  WorkerId last_server_ = 0;          // in the newest generation that trained; 0: none has
  std::string settings_;              // that what is remembered was made with
};

}  // namespace perigee
