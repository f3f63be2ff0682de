// TLS 1.3 as a state machine: received bytes in, bytes to send out; no socket, no clock. No tickets, no early data, no renegotiation,
// one cipher suite. The handshake is OpenSSL's, the records after it are ours (tls_records.h). Its credentials prove the identity of a
// side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct evp_md_st;
struct ssl_ctx_st;
struct ssl_session_st;
struct ssl_st;

namespace perigee {

// Takes what is to be sent; the bytes are valid during the call.
class TlsSink {
 public:
  virtual ~TlsSink() = default;
  virtual void put(std::span<const std::byte> bytes) = 0;
  // Memory of so many bytes that are put by filling it and calling commit(), without a copy; null: there is none.
  virtual std::byte* reserve([[maybe_unused]] size_t bytes) { return nullptr; }
  virtual void commit([[maybe_unused]] size_t bytes) {}
};

// The proof of identity that a side shows, and the one that it asks of the other side.
class TlsCredentials {
 public:
  virtual ~TlsCredentials() = default;
  // A stranger may make us read so much before it has proved itself.
  virtual size_t handshake_bytes() const = 0;
  // Gives OpenSSL what is shown and checked; outlives `context`. False: this OpenSSL cannot do it.
  virtual bool install(ssl_ctx_st* context) const = 0;
  // At the end of a handshake: why the other side has not proved itself; empty when it has.
  virtual std::string refusal(ssl_st* connection) const = 0;
};

// The state that all connections with the same credentials share.
class TlsContext {
 public:
  explicit TlsContext(std::unique_ptr<const TlsCredentials> credentials, uint64_t rekey_bytes = uint64_t{64} << 30);
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

  // Both must outlive it.
  Tls(const TlsContext& context, Role role, TlsSink& sink);
  ~Tls();

  State state() const;
  void start();  // a client's first words
  // Takes received bytes. They must stay where they are until read() has returned 0.
  void feed(std::span<const std::byte> received);
  // Goes on with the handshake and decrypts into `out`. 0: everything fed is used up, or state() is no longer handshake or open. Behind
  // what it returns `out` may hold nonsense.
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
