// TLS 1.3 with a key that both sides have beforehand, as a state machine: received bytes in, bytes to send out; no socket, no clock.
// Nothing else is offered or taken: one cipher suite (TLS_AES_128_GCM_SHA256), a fresh Diffie-Hellman secret for each connection
// (psk_dhe_ke), no certificates, no tickets, no early data, no renegotiation. A handshake that ends proves the key to both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/launch/secret.h"

namespace perigee {

// Takes what is to be sent; the bytes are valid during the call.
class TlsSink {
 public:
  virtual ~TlsSink() = default;
  virtual void put(std::span<const std::byte> bytes) = 0;
};

// What all connections with the same keys share.
class TlsContext {
 public:
  // Shows `key` when connecting; takes it and `accepted` from others.
  TlsContext(const Secret& key, const std::vector<Secret>& accepted, uint64_t rekey_bytes = uint64_t{64} << 30);
  ~TlsContext();
  struct Impl;

 private:
  friend class Tls;
  std::unique_ptr<Impl> impl_;
};

class Tls {
 public:
  enum class Role { client, server };
  enum class State { handshake, open, closed, failed };

  // A stranger may make us read so much before it has proved that it has the key. A handshake needs about 500.
  static constexpr size_t kMaxHandshakeBytes = 4096;

  // Both must outlive it.
  Tls(const TlsContext& context, Role role, TlsSink& sink);
  ~Tls();

  State state() const;
  void start();  // a client's first words
  // What was received. It must stay where it is until read() has returned 0.
  void feed(std::span<const std::byte> received);
  // Goes on with the handshake and decrypts into `out`. 0: everything fed is used up, or state() is no longer handshake or open.
  size_t read(std::span<std::byte> out);
  // Encrypts and puts into the sink; only when open. False: failed.
  bool write(std::span<const std::byte> bytes);
  void close();  // says goodbye; nothing can be written after it

  const std::string& problem() const;  // why it failed, for people
  uint64_t key_updates() const;        // of our own sending key

 private:
  friend class TlsContext;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perigee
