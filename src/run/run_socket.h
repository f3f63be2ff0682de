// The Unix socket of a run on one machine, RUN/control.sock: JSON, one line a request and one its answer. Only the user who trains may open
// it. RunServer answers there for a run; LocalRun asks.
//   {"ask": "progress" | "options"}, {"steer": {...}}, {"evaluate": "test"}, {"save": "/a/model.safetensors"}
//   {"answer": ...} or {"error": {"kind", "where", "what", "got", "expected", "hint"}}
#pragma once

#include <atomic>
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

// Listens in `folder`, whatever the length of its path; takes the place of a socket that a dead process left. Empty, with errno: not.
SocketHandle listen_in(const std::string& folder);
SocketHandle connect_in(const std::string& folder);

// Lines over a connection. Both sides give up after `cancel`, a lost connection or a line that is too long.
class LineConnection {
 public:
  static constexpr size_t kLongest = size_t{1} << 20;

  explicit LineConnection(SocketHandle socket) : socket_(std::move(socket)) {}
  bool send(const std::string& line);  // false: the other side is gone or takes nothing for 10 s
  std::optional<std::string> receive(const std::atomic<bool>* cancel);
  bool is_open() const { return static_cast<bool>(socket_); }
  void close() { socket_ = {}; }

 private:
  SocketHandle socket_;
  std::string received_;
};

Json error_json(const Error& error);
Error error_of(const Json& json, const std::string& where);

}  // namespace perigee
