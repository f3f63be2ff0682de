// Serves examples to workers: reads on threads of its own, sends on the loop thread. Each worker has its turn, and of each only so much is
// read ahead of what its connection takes: a slow worker holds up no other and fills no memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cluster/data/served_data.h"
#include "cluster/membership/coordinator.h"

namespace perigee {

struct ExampleServerOptions {
  int threads = 2;                         // that read; 0: deliver() does, as a simulation needs it
  size_t piece_bytes = size_t{256} << 10;  // read at once for one worker; one record may be larger
  size_t frame_bytes = size_t{64} << 10;   // sent at once: other frames find their way between
  size_t pieces = 4;                       // of one worker that are read and not sent
  size_t max_requests = 1024;              // of one worker that wait
  size_t max_ids = size_t{128} << 10;      // in them
};

class ExampleServer final : public ExampleService {
 public:
  // `wake`: called on a reading thread when there is something to deliver(): it asks the loop to call that. Sources, transport and what
  // `wake` needs outlive this.
  ExampleServer(std::vector<ServedSource> sources, Transport& transport, std::function<void()> wake, ExampleServerOptions options = {});
  ~ExampleServer() override;

  bool on_read(PeerId peer, const FrameHeader& header, Read read) override;
  void on_writable(PeerId peer) override;
  void on_lost(PeerId peer) override;
  void deliver();

  struct Counters {
    uint64_t requests = 0, refused = 0, examples = 0, bytes = 0, errors = 0;
    size_t buffered = 0;  // pieces that are read, or being read, and not sent
  };
  Counters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perigee
