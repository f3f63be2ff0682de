// A socket that others connect to: TCP or a Unix socket.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/net/loop.h"

struct uv_stream_s;

namespace perigee {

// A Unix socket's address: "unix:/run/perigee.sock".
inline constexpr const char* kUnixScheme = "unix:";

class Listener {
 public:
  // `server` is for Stream::accept(). `status` is libuv's: when it is not 0, no connection could be accepted; libuv turns away all that
  // wait, and does not spin.
  using Incoming = std::function<void(uv_stream_s* server, int status)>;

  // "127.0.0.1:0", "[::1]:7700", ":7700" (all interfaces), "unix:PATH". Error(usage), Error(resources) that name `where`.
  Listener(UvLoop& loop, const std::string& address, Incoming incoming, const std::string& where = "--listen");
  ~Listener();  // no call follows; a Unix socket's file is removed
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const std::string& address() const;  // the real one, with the port that the system chose

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // libuv has it until its handle is closed
};

}  // namespace perigee
