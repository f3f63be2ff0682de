// The log of a run as another process reads it while it grows, and whether there is a process that writes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/core/json.h"

namespace perigee {

class LogFollower {
 public:
  explicit LogFollower(std::string folder) : file_(std::move(folder) + "/log.jsonl") {}
  // The events since the last call, in order; a line that is not complete yet comes later, one that is damaged never.
  std::vector<Json> more();

 private:
  std::string file_, rest_;
  int64_t at_ = 0;
};

// A process has the run open (it holds a lock on the log).
bool run_is_alive(const std::string& folder);
// For the process that trains: the lock, as long as the descriptor is open. It does not matter when there is none, as on some file systems of
// a network.
void lock_run(int descriptor);

// How the run ended, by its events: "finished", "stopped", "failed"; empty: they do not say.
std::string end_of_run(const Json& event);

// host:port of the coordinator of a run of several workers that is on; empty: none.
std::string coordinator_of(const std::string& folder);

// The newest folder in runs/; empty: there is none.
std::string newest_run_folder();

}  // namespace perigee
