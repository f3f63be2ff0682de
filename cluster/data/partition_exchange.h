// A worker's side of data.at = "partitions": it serves the partitions that it holds to the others, and reads theirs. Its connections are its
// own, beside those of the run: a worker serves from the moment when it is reached, also while it is not yet, or no more, a member, because
// the others may not go on before they have its examples. A holder that is lost is looked for until the coordinator names another place.
// Owned by the loop thread, except for what is said to be for any thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/data/example_client.h"
#include "cluster/data/example_server.h"
#include "cluster/data/served_data.h"
#include "cluster/protocol/transport.h"

namespace perigee {

struct PartitionExchangeOptions {
  double retry_ms = 200;                   // between two attempts to reach a holder
  double silent_ms = 10'000;               // a holder that was asked and says nothing for so long is connected to anew
  double deadline_ms = 300'000;            // a reader that gets nothing for so long fails, and its worker with it
  size_t window_bytes = size_t{16} << 20;  // asked for ahead, of all partitions together
  int threads = 2;                         // that read for others; none where nothing is held
};

class PartitionExchange final : public TransportEvents {
 public:
  // A name and its source, which the caller has opened and checked.
  using Held = std::map<std::string, SourcePtr>;
  // `post`: makes the loop call a function soon; from any thread. Clock and transport outlive this.
  PartitionExchange(Held held, Clock& clock, Transport& transport, std::function<void(std::function<void()>)> post,
                    PartitionExchangeOptions options = {});
  ~PartitionExchange() override;

  // The first of a run says which partitions there are; later ones change nothing. Error(data).
  void on_welcome(const Welcome& welcome, uint64_t job);
  void on_holders(const Holders& holders);
  // Every reader, now or later, gets an Error(cluster): the worker ends. Any thread.
  void stop();

  // ---- any thread, after on_welcome ----
  SourcePtr held(const std::string& partition) const;  // null: another has it
  ExampleClient& client_of(size_t leaf);               // of the manifest, and of another worker
  bool starved() const;

  void on_connected(PeerId peer, const std::string& address) override;
  void on_frame(PeerId peer, std::span<const std::byte> frame) override;
  void on_lost(PeerId peer, PeerLoss why) override;
  void on_timer(uint64_t timer) override;
  void on_bytes(PeerId peer) override;
  void on_writable(PeerId peer) override;

 private:
  struct Away;  // a partition that another worker holds

  void connect(Away& away);
  void drop(Away& away);
  void ask(Away& away);
  void wake(size_t leaf);
  void tick();
  void serve(PeerId peer, const FrameHeader& header, std::span<const std::byte> payload);
  Away* by_peer(PeerId peer);

  const Held held_;
  Clock& clock_;
  Transport& transport_;
  const std::function<void(std::function<void()>)> post_;
  const PartitionExchangeOptions options_;
  uint64_t job_ = 0;
  std::vector<bool> serves_;                      // by leaf
  std::map<size_t, std::unique_ptr<Away>> away_;  // by leaf; filled once, before the trainer opens the job
  std::map<std::string, std::string> places_;     // as far as the coordinator has told
  std::unique_ptr<ExampleServer> server_;         // null: nothing is held, or no run is known yet
  std::shared_ptr<std::atomic<bool>> alive_ = std::make_shared<std::atomic<bool>>(true);  // for what was posted
  std::atomic<bool> stopped_{false};
};

}  // namespace perigee
