// A peer that does not use the transport: a test chooses its bytes, with or without an honest TLS handshake.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cluster/launch/secret.h"
#include "src/net/tls.h"
#include "tests/cluster/uv/uv_node.h"
#include "tests/net/raw_socket.h"

namespace perigee::test {

// Connected, and past the handshake when there is a key.
class RawPeer final : public TlsSink {
 public:
  RawPeer(uint16_t port, const Secret* key, UvLoop& loop) : socket(RawSocket::connected(port)) {
    if (!key) return;
    context_ = std::make_unique<TlsContext>(credentials_of(*key));
    tls_ = std::make_unique<Tls>(*context_, Tls::Role::client, *this);
    tls_->start();
    std::byte room[64];
    EXPECT_TRUE(run_until(loop, [&] {
      send_pending();
      tls_->feed(received_ = socket.read());
      tls_->read(room);
      return tls_->state() == Tls::State::open;
    }));
    send_pending();
  }
  // As it is on the line.
  std::vector<std::byte> seal(std::span<const std::byte> frame) {
    if (!tls_) return {frame.begin(), frame.end()};
    EXPECT_TRUE(tls_->write(frame));
    all_.insert(all_.end(), pending_.begin(), pending_.end());
    return std::exchange(pending_, {});
  }
  const std::vector<std::byte>& all_sent() const { return all_; }
  void put(std::span<const std::byte> bytes) override { pending_.insert(pending_.end(), bytes.begin(), bytes.end()); }

  RawSocket socket;

 private:
  void send_pending() {
    socket.write(pending_);
    all_.insert(all_.end(), pending_.begin(), pending_.end());
    pending_.clear();
  }
  std::unique_ptr<TlsContext> context_;
  std::unique_ptr<Tls> tls_;
  std::vector<std::byte> pending_, received_, all_;
};

}  // namespace perigee::test
