// An operator who steers the simulated run: kicks workers, pauses it and lets it go on, changes the local steps and the learning rate.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/simulator/network/network.h"
#include "cluster/simulator/seeded_rng.h"
#include "src/core/json.h"

namespace perigee::sim {

class Operator final : public TransportEvents {
 public:
  // `kicked` hears the names of workers that it is about to send away.
  Operator(Network& network, SeededRng& rng, std::function<void(const std::string&)> kicked);

  void command(Json command);    // until it is answered, whatever becomes of the connection
  void kick_one();               // of those that are there when the coordinator is asked
  void stop() { over_ = true; }  // the run is over

  void on_connected(PeerId peer, const std::string& address) override;
  void on_frame(PeerId peer, std::span<const std::byte> frame) override;
  void on_lost(PeerId peer, PeerLoss why) override;
  void on_timer(uint64_t timer) override;
  void on_writable(PeerId) override {}

 private:
  void connect();
  void ask();

  Network& network_;
  SeededRng& rng_;
  std::function<void(const std::string&)> kicked_;
  int process_;
  PeerId peer_ = 0;
  bool connected_ = false, over_ = false, kick_ = false;
  std::vector<Json> commands_;  // the first is on its way
  int64_t request_ = 1;         // its number
};

}  // namespace perigee::sim
