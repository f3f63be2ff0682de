// The coordinator's standby: keeps a copy of its ledger, of its newest checkpoint and of what its launcher remembers; and when the coordinator
// is gone and enough workers stand at the door, it says so, and its host makes a Coordinator of what it has. It never decides anything
// about the run itself. A state machine; owned by the loop thread.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/membership/lease_store.h"
#include "cluster/protocol/images.h"
#include "cluster/protocol/message.h"
#include "cluster/protocol/transport.h"
#include "cluster/replica/replica.h"
#include "src/core/json.h"

namespace perigee {

struct StandbyOptions {
  std::string coordinator;  // host:port
  std::string name, host;
  std::string address;  // where workers will find it
  uint64_t job_id = 0;
  double beat_ms = 500, silent_ms = 1600;
  double idle_ms = 3000;  // a coordinator that has lacked workers for so long is no reason to send workers away
  double retry_ms = 100, retry_max_ms = 1000;
  bool lease_outside = false;   // who goes on is decided elsewhere, and not by how many workers come
  double give_up_ms = 120'000;  // without coordinator and without enough workers for so long: the end
};

// The next coordinator's initial state.
struct Inheritance {
  std::vector<std::byte> ledger;
  std::vector<Membership> memberships;
  uint64_t generation = 0;
  std::string session, steering;
  std::map<WorkerId, Named> who;
  int64_t checkpoint_round = -1;
  SharedBytes checkpoint;  // null: there is none yet
  // Workers that wait at the door: they are the next coordinator's, with what they have said so far.
  struct Arrival {
    PeerId peer = 0;
    std::string address;
    std::vector<std::vector<std::byte>> frames;
  };
  std::vector<Arrival> arrivals;
};

class StandbyEvents {
 public:
  virtual ~StandbyEvents() = default;
  virtual void on_event(const Json& event) = 0;
  // The host calls take() from outside of this call and makes a coordinator. Until then no request gets an answer.
  virtual void on_take_over(const std::string& cause) = 0;
  virtual void on_stopped(const std::string& why, bool finished) = 0;  // the coordinator has ended the run
  virtual void on_failed(const Error& error) = 0;                      // refused; or given up: take() has what there is to save
};

class Standby final : public TransportEvents {
 public:
  Standby(StandbyOptions options, Clock& clock, Rng& rng, Transport& transport, StandbyEvents& events);

  void start();
  Inheritance take();  // its own connections are closed, those of workers stay open
  Json status() const;

  void on_connected(PeerId peer, const std::string& address) override;
  void on_frame(PeerId peer, std::span<const std::byte> frame) override;
  void on_lost(PeerId peer, PeerLoss why) override;
  void on_timer(uint64_t timer) override;
  void on_bytes(PeerId peer) override;
  void on_writable(PeerId) override {}

 private:
  enum class State : uint8_t { idle, following, ready, taken, over };  // ready: it has said that it takes over
  struct Guest {
    uint64_t since_ns = 0;
    Inheritance::Arrival arrival;
  };

  void connect();
  void lose(const std::string& why, bool dead);
  void on_coordinator_frame(const FrameHeader& header, std::span<const std::byte> payload);
  void on_replicate(const FrameHeader& header, const Replicate& message, std::span<const std::byte> body);
  void on_guest_frame(PeerId peer, Guest& guest, const FrameHeader& header, std::span<const std::byte> frame);
  void answer();
  void send_away(uint64_t longer_than_ns = 0);
  bool coordinator_is_there(uint64_t now) const;
  bool believed_gone(uint64_t now) const;
  void consider();
  void tell_waiting(std::span<const WorkerId> here);
  void fail(const Error& error);
  Error given_up() const;
  void end();
  FrameHeader header() const { return {.job = options_.job_id, .generation = generation_, .round = round_}; }

  StandbyOptions options_;
  Clock& clock_;
  Rng& rng_;
  Transport& transport_;
  StandbyEvents& events_;

  State state_ = State::idle;
  PeerId coordinator_ = 0;
  bool connected_ = false, informed_ = false;  // informed: it has heard which membership is in force, in this life
  bool greeted_ = false;                       // it has said something since it was connected
  bool dead_ = false;                          // the coordinator's port is closed
  std::string why_lost_;
  uint64_t heard_ns_ = 0, retry_ns_ = 0, lost_ns_ = 0, idle_since_ns_ = 0, ticked_ns_ = 0;
  double backoff_ms_ = 0;

  std::vector<std::byte> ledger_;
  size_t decoded_ = 0;  // of its bytes
  int64_t round_ = -1;
  uint64_t generation_ = 0, consent_ = 0;
  std::vector<Membership> memberships_;
  std::string session_, steering_;
  std::map<WorkerId, Named> who_;  // of the memberships that it was told of
  ImageReceiver receiver_;
  int64_t checkpoint_round_ = -1;
  SharedBytes checkpoint_;

  std::unordered_map<PeerId, Guest> guests_;
  std::map<WorkerId, uint64_t> seen_;  // who has been at the door, and when
  std::set<WorkerId> came_;            // of them, since the coordinator was lost
  std::string waits_for_;              // as told last
};

}  // namespace perigee
