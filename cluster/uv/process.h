// Worker processes on this machine: this program (or the embedding one) exec'd again, never forked. A child gets no descriptor but
// its three streams and the one that it reads its key from; what it writes to standard error is told line by line, and its end is
// kept for the root cause. Owned by the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/membership/agent.h"

struct uv_loop_s;

namespace perigee {

inline constexpr size_t kTailBytes = 2048;  // of standard error, kept per process
inline constexpr int kKeyDescriptor = 3;    // where a child finds its key

struct UvProcessOptions {
  std::string program;                 // empty: this program, /proc/self/exe
  std::vector<std::string> arguments;  // after `worker NAME --join HOST:PORT --key-fd 3 --threads N`
  std::string folder;                  // where it starts; empty: here
  std::string secret;                  // hex: of the cluster; a standby needs it to speak to other agents. Empty: none
  bool die_with_parent = false;        // a child without a parent ends: it is told `--parent`, and calls follow_parent()
};

// In the child, since nothing of ours runs between fork and exec: it is killed when its parent ends, or gets another signal.
// Nothing if `parent` is 0.
void follow_parent(int parent, int signal = 9);
void outlive_parent();

class UvProcesses final : public Processes {
 public:
  using OnExit = std::function<void(uint32_t process, int code, int signal, const std::string& tail)>;
  using OnLine = std::function<void(const std::string& worker, const std::string& line)>;

  UvProcesses(uv_loop_s* loop, UvProcessOptions options, OnExit on_exit, OnLine on_line = {});
  ~UvProcesses() override;  // kills what is left and waits for it

  uint32_t start(const WorkerProcess& process, std::string* error) override;
  void stop(uint32_t process, bool now) override;
  size_t running() const;

  // The command line of a worker, without the program: what `ps` shows begins with "perigee worker NAME".
  static std::vector<std::string> command_line(const WorkerProcess& process, const UvProcessOptions& options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perigee
