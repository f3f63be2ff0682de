// Rounds of a parameter server (asynchronous policies). One process, the server, holds the parameters and trains nothing. Each worker trains
// from what it pulled last, pushes what it has made of it, and gets the server's parameters in return: no worker waits for another.
// worker.cpp: a worker that trains. worker_serving.cpp: the server. worker_redo.cpp: a new server makes again what the one before had made.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cluster/protocol/images.h"
#include "cluster/rounds/leased_work.h"
#include "cluster/rounds/server/desk.h"
#include "cluster/rounds/server/kept_pushes.h"
#include "cluster/rounds/server/redo.h"
#include "cluster/rounds/worker_rounds.h"

namespace perigee {

class ServerRounds final : public WorkerRounds {
 public:
  using WorkerRounds::WorkerRounds;

  void on_propose() override;
  void on_start_epoch() override;
  void on_loaded() override;
  void resume() override;
  void stop(bool keep) override;
  bool settles(const CatchUp& heal) override;
  bool busy() const override { return round_.applying || taking_; }
  std::vector<Range> pending() const override;

  Received on_coordinator_frame(const FrameHeader& header, std::span<const std::byte> payload) override;
  Received on_worker_frame(PeerId peer, const FrameHeader& header, std::span<const std::byte> payload) override;
  void on_writable(WorkerId) override;
  void on_commit() override;
  int64_t kept_from() const override { return kept_.complete_from(); }
  std::vector<RedoRound> made() const override { return {made_.begin(), made_.end()}; }
  void on_contribution(const TrainOrder& order, const Contribution& contribution, double worked_s) override;
  void on_payload_refused(int64_t round, size_t payload) override;
  void on_served(int64_t round, uint64_t hash, const SharedBytes& reply, bool change) override;
  void on_taken(int64_t round, bool ok) override;
  void tick(uint64_t now) override;

 protected:
  void train() override;
  void forget_work() override { pushed_ = false; }
  std::string awaits() const override;

 private:
  // ---- a worker that trains ----
  struct Request {
    Push push;
    SharedBytes body;
    PeerId peer = 0;  // 0: not sent yet
    std::optional<Pulled> answer;
    uint64_t progress_ns = 0;
  };
  void on_lease(const Lease& lease);
  void hand_in();
  void push_contribution();
  void ask_server(Push push, SharedBytes body = nullptr);
  void try_push();
  bool on_pulled(PeerId peer, const FrameHeader& header, const Pulled& pulled);
  bool on_image(PeerId peer, const FrameHeader& header, Image& image, std::span<const std::byte> body);
  bool on_values(PeerId peer, Image& image, std::span<const std::byte> body);
  void on_imaged(const Imaged& imaged) { kept_.forget_up_to(imaged.round); }
  bool on_resend(PeerId peer, const FrameHeader& header, Resend resend);

  // ---- the server (worker_serving.cpp) ----
  bool on_push(PeerId peer, const FrameHeader& header, Push push);
  bool on_pushed_bytes(PeerId peer, Image& image, std::span<const std::byte> body);
  void serve_next();
  bool enough() const;
  bool sort_arrivals();
  void merge(int64_t workers, int64_t examples_after);
  void remember(const std::vector<Arrival>& merged, uint64_t hash);
  void report(const std::vector<Arrival>& merged, uint64_t hash, const SharedBytes& reply, bool change);
  void answer(const Arrival& arrival, const SharedBytes& bytes, bool counted, bool change);

  // ---- rounds made again (worker_redo.cpp) ----
  void on_redo(Redo redo);
  void redo_next();
  void on_redone(int64_t round, uint64_t hash, const SharedBytes& reply, bool change);
  void give_up_redo(const std::string& why);
  bool on_resent(PeerId peer, const FrameHeader& header, Resent resent);
  bool on_redo_image(PeerId peer, Image& image, std::span<const std::byte> body);

  LeasedWork leased_;
  KeptPushes kept_;
  std::optional<Request> request_;  // to the server, not answered
  ImageReceiver receiver_;
  uint64_t counted_ = 0;  // contributions that were merged since this worker began afresh
  bool fresh_ = false;    // it has parameters to train from
  bool taking_ = false;   // asked of the replica and not answered
  bool pushed_ = false;   // what is staged may be in a result
  bool settling_ = false;
  bool idle_told_ = false;

  ServerDesk desk_;
  RedoQueue redo_;
  std::deque<RedoRound> made_;    // that are not known to be committed
  std::vector<Arrival> merging_;  // in the round that is being made, or waiting for others to make one
  std::vector<Arrival> pulls_;    // waiting for the parameters to be told
  bool merge_begun_ = false;
  SharedBytes values_;  // parameters and states of the result of `values_round_`
  int64_t values_round_ = -2;
  int64_t merged_examples_ = 0, merge_workers_ = 0;
  uint64_t discarded_ = 0;
};

}  // namespace perigee
