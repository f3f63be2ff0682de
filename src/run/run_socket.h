// The Unix socket of a run on one machine, RUN/control.sock: JSON, one line a request and one its answer. Only the user who trains may open
// it. RunServer answers there for a run; LocalRun asks.
//   {"ask": "progress" | "options"}, {"steer": {...}}, {"evaluate": "test"}, {"save": "/a/model.safetensors"}
//   {"answer": ...} or {"error": {"kind", "where", "what", "got", "expected", "hint"}}
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>

#include "src/core/error.h"
#include "src/core/json.h"

namespace perigee {

inline constexpr const char* kRunSocket = "control.sock";

// A socket's descriptor; -1: none.
class SocketHandle {
 public:
  SocketHandle() = default;
  explicit SocketHandle(int descriptor) : descriptor_(descriptor) {}
  SocketHandle(SocketHandle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  SocketHandle& operator=(SocketHandle&& other) noexcept;
  ~SocketHandle();
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

// Listens in `folder`, whatever the length of its path; takes the place of a socket that a dead process left, never that of a live one.
// Empty, with errno, when it fails. None of these functions waits.
SocketHandle listen_in(const std::string& folder);
SocketHandle connect_in(const std::string& folder);
// The next connection. Empty, with errno, when there is none, or when it belongs to another user: not every file system heeds the rights of
// the socket's file.
SocketHandle accept_from(const SocketHandle& listening);

// Lines over a connection. Both sides give up after `cancel`, a lost connection or a line that is too long.
class LineConnection {
 public:
  static constexpr size_t kLongest = size_t{1} << 20;
  static constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

  explicit LineConnection(SocketHandle socket) : socket_(std::move(socket)) {}
  // False: the other side is gone, or has not taken the line within 10 s or by `cancel`; the connection is closed.
  bool send(const std::string& line, const std::atomic<bool>* cancel = nullptr);
  std::optional<std::string> receive(const std::atomic<bool>* cancel, std::chrono::milliseconds most = kForever);
  bool is_open() const { return static_cast<bool>(socket_); }
  void close() { socket_ = {}; }

 private:
  SocketHandle socket_;
  std::string received_;
};

Json error_json(const Error& error);
Error error_of(const Json& json, const std::string& where);

}  // namespace perigee
