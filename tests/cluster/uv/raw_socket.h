// A peer without the transport: a socket whose bytes a test chooses, with or without an honest TLS handshake.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cluster/uv/tls.h"
#include "tests/cluster/uv/uv_node.h"

namespace perigee::test {

// Does not block.
class RawSocket {
 public:
  static RawSocket unconnected() { return RawSocket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }
  static RawSocket connected(uint16_t port) {
    RawSocket raw = unconnected();
    raw.connect(port);
    return raw;
  }
  static RawSocket listening() {
    RawSocket raw = unconnected();
    sockaddr_in address = loopback(0);
    EXPECT_EQ(::bind(raw.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(raw.fd_, 16), 0);
    return raw;
  }
  RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawSocket& operator=(RawSocket&&) = delete;
  ~RawSocket() {
    if (fd_ >= 0) ::close(fd_);
  }

  int fd() const { return fd_; }
  uint16_t port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  // On loopback it is connected at once, into the listener's backlog.
  void connect(uint16_t port) {
    const sockaddr_in address = loopback(port);
    const int flags = fcntl(fd_, F_GETFL);
    fcntl(fd_, F_SETFL, flags & ~O_NONBLOCK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    fcntl(fd_, F_SETFL, flags);
  }
  void write(std::span<const std::byte> bytes) { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void shut() { ::shutdown(fd_, SHUT_WR); }
  std::vector<std::byte> read() {
    std::vector<std::byte> bytes(65536);
    const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN)) ended_ = true;
    bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return bytes;
  }
  // The other side has closed it.
  bool ended() {
    read();
    return ended_;
  }

 private:
  explicit RawSocket(int fd) : fd_(fd) { EXPECT_GE(fd, 0); }
  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  int fd_ = -1;
  bool ended_ = false;
};

// Connected, and past the handshake when there is a key.
class RawPeer final : public TlsSink {
 public:
  RawPeer(uint16_t port, const Secret* key, UvLoop& loop) : socket(RawSocket::connected(port)) {
    if (!key) return;
    context_ = std::make_unique<TlsContext>(*key, std::vector<Secret>{});
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
