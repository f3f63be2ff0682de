// The log of a run as another process reads it while it grows, and whether there is a process that writes it.
#pragma once

#include <functional>
#include <string>

#include "src/core/json.h"
#include "src/io/lines.h"

namespace perigee {

class LogFollower {
 public:
  explicit LogFollower(const std::string& folder) : lines_(folder + "/log.jsonl") {}
  // Hands on the events since the last call, in order, without control characters in their texts. A line that is not complete yet comes later,
  // one that is damaged never. False: there was none.
  bool more(const std::function<void(Json)>& take);

 private:
  LineReader lines_;
};

// A process has the run open: it holds a lock on the log. On a file system without locks every run counts as alive.
bool run_is_alive(const std::string& folder);
// For the process that trains: the lock, as long as the descriptor is open.
void lock_run(int descriptor);

// How the run ended, by its events: "finished", "stopped", "failed"; empty: they do not say.
std::string end_of_run(const Json& event);

// host:port of the coordinator of a run of several workers that is on; empty: none.
std::string coordinator_of(const std::string& folder);

// The newest folder in runs/; empty: there is none.
std::string newest_run_folder();

}  // namespace perigee
