// Answers for a run at its socket (run_socket.h), so that `perigee attach RUN` reaches it from other terminals. A thread for each connection
// asks the run as a watcher; the training thread waits for none of them.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "src/run/run_socket.h"
#include "src/run/watched_run.h"

namespace perigee {

class RunServer {
 public:
  static constexpr size_t kMostConnections = 16;
  // Where all places are taken, the connection that has asked nothing for so long, and longest, makes room; its client connects again.
  static constexpr std::chrono::milliseconds kSilent = std::chrono::seconds(1);

  // Null when there is no folder; a socket that cannot be opened is a warning. `run` outlives it.
  static std::unique_ptr<RunServer> open(WatchedRun& run, const std::string& folder);
  RunServer(WatchedRun& run, std::string folder, SocketHandle socket);
  ~RunServer();  // the socket's file is removed
  RunServer(const RunServer&) = delete;
  RunServer& operator=(const RunServer&) = delete;

 private:
  struct Connection {
    std::atomic<bool> leave{false}, over{false};
    std::atomic<int64_t> silent_since_ms{0};  // INT64_MAX while a request is answered
    std::thread thread;
  };
  void accept_all();
  void begin(SocketHandle accepted);
  bool make_room();
  void answer_all(Connection& connection, LineConnection& lines);
  Json answer(const Json& request, Run::Cancel cancel);

  WatchedRun& run_;
  const std::string folder_;
  SocketHandle socket_;
  std::atomic<bool> closing_{false};
  std::list<Connection> connections_;  // of the thread that accepts
  std::thread thread_;
};

}  // namespace perigee
