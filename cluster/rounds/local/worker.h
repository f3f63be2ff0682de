// Local-SGD rounds, which the coordinator announces: each worker trains what it was leased, says that its contribution is staged, and
// Begin says who takes part with what weight. With fragments or overlap a round is of a part of the parameters, or on its way while the
// next local steps are made (worker_partial.cpp); with groups there are exchanges inside them before the round's own (worker_inner.cpp).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/rounds/leased_work.h"
#include "cluster/rounds/worker_rounds.h"

namespace perigee {

class LocalRounds final : public ExchangedRounds {
 public:
  explicit LocalRounds(WorkerCore& core);

  void on_propose() override;
  void on_start_epoch() override;
  void resume() override;
  void stop(bool keep) override;
  void keep_work() override;
  void on_loaded() override { join_late(); }
  std::vector<Range> pending() const override;
  std::vector<WorkerId> take_broken() override;

  Received on_coordinator_frame(const FrameHeader& header, std::span<const std::byte> payload) override;
  Exchange* exchange_of(const FrameHeader& header, const Chunk& chunk, int64_t* number) override;
  void after_exchange(const Exchange& exchange) override;
  void on_writable(WorkerId peer) override;
  void on_contribution(const TrainOrder& order, const Contribution& contribution, double worked_s) override;
  void on_payload_refused(int64_t round, size_t payload) override;
  void on_inner_applied(int64_t round, int64_t index, int refused) override;
  void check_deadlines(uint64_t now) override;

 protected:
  bool may_train() const override;
  void train() override;
  bool has_work() const override { return ExchangedRounds::has_work() || carried_ || inner_.touched; }
  void forget_work() override;
  void expect() override;
  bool still_trains(WorkerId id, uint64_t now) override;
  ApplyOrder result() override;
  void on_held(Done* done) override;
  void add_times(Figures* figures, uint64_t now) override;
  bool waits_after(int64_t round) override;
  const Exchange& open_exchange() const override;
  std::string open_name() const override;
  bool applies() const override { return round_.applying || inner_.applying; }
  bool computes() const override { return round_.training && !waits_for_result(); }

 private:
  void on_lease(const Lease& lease);
  void on_begin(const FrameHeader& header, Begin begin);
  bool set_up(const Begin& begin, Exchange::Setup* setup) const;
  void train_leased();
  void restore_contribution();

  // ---- fragments and overlap (worker_partial.cpp) ----
  bool may_overlap() const;
  bool waits_for_result() const { return round_.training && round_.training->overlapped && round_.staged; }
  void stage_only();
  void join_staged();
  void join_late();
  void take_carried();
  bool got_work();
  void check_apply(uint64_t now);
  void tell_exchanged();

  // ---- inner exchanges (worker_inner.cpp) ----
  bool has_inner() const;
  int64_t inner_count() const;   // of a round
  int64_t inner_number() const;  // of the next one, counted over all rounds
  std::vector<int> group_now() const;
  std::vector<WorkerId> broken_group() const;
  void stop_inner();
  void reset_inner();
  void expect_inner();
  void train_part();
  void on_part(const TrainOrder& order, const Contribution& part);
  void carry_on();
  void start_inner();
  void after_inner();

  LeasedWork leased_;
  size_t staged_row_ = 0;
  std::optional<Begin> begun_;
  uint64_t begun_ns_ = 0;
  std::vector<std::byte> kept_;  // what of the contribution the exchange adds up, as it was before that wrote over it
  bool kept_valid_ = false;
  std::optional<Contribution> carried_;  // handed in already, in no result, and part of the next contribution
  int64_t steps_seen_ = 0;
  uint64_t stepped_ns_ = 0;  // when `steps_seen_` last changed, while a change of membership waits for a result to be applied

  Exchange inner_exchange_;
  struct {
    int64_t index = 0;                       // of the next
    Contribution work;                       // of this round so far, while it is not staged for the round
    SharedBytes payload;                     // with a codec: of what is staged for the next one
    std::vector<WorkerId> group;             // of the exchange that is open
    std::map<WorkerId, int64_t> steps_then;  // of the members that the open exchange waits for, when it began to
    bool touched = false;                    // the local values are not the last result
    bool waiting = false;                    // for the exchange that is open
    bool applying = false;                   // asked of the replica and not answered, of whatever generation
    uint64_t begun_ns = 0;
    std::vector<WorkerId> broken;  // by the last change of membership
  } inner_;
};

}  // namespace perigee
