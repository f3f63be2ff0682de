// A scheduler's answers when it has started us: which of how many processes this is, where the others meet, how it stops us and how often
// it has started us again. One file per engine defines one EngineDef. An engine starts nothing and moves no data.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace perigee {

// getenv, or a test's own.
using Environment = std::function<const char*(const char* name)>;

struct Engine {
  std::string name;                    // "slurm"
  std::string job;                     // of the scheduler, unique while files of it may exist
  int rank = 0, size = 1;              // rank 0 coordinates and trains, the others train
  int local_rank = 0, local_size = 1;  // on this machine
  // Where the processes meet. A file that rank 0 writes (address and key, readable by its owner only) and all can read ...
  std::string meeting_file;
  // ... or, when all have the cluster's secret, an address that all of them know.
  std::string coordinator;
  int restarts = 0;     // how often the scheduler has started this job again
  int stop_signal = 0;  // beyond SIGTERM: "end soon"; 0: none
  std::string advice;   // something about the way it was started, for the person who did; empty: nothing
};

struct EngineDef {
  const char* name = nullptr;
  const char* doc = nullptr;
  // Nothing when this process was not started by it. Error(usage) when it was, in a way that makes no sense.
  std::optional<Engine> (*find)(const Environment& environment) = nullptr;
};

std::span<const EngineDef* const> all_engines();
// The engine called `wanted`, or with "auto" the first that has started us; nothing with "none". Error(usage) with the nearest name, or
// when the wanted one has not started us.
std::optional<Engine> find_engine(const std::string& wanted, const Environment& environment);

// Rank 0's announcement to the others. Written atomically; an older one is replaced.
struct Meeting {
  std::string address, key;
};
void write_meeting(const std::string& file, const Meeting& meeting);
// Nothing while it is not there. Error(authentication) when others than its owner can read it.
std::optional<Meeting> read_meeting(const std::string& file);

// A number from the environment. Error(usage) naming the variable when it is none or out of range.
std::optional<int> environment_number(const Environment& environment, const char* name, int low, int high);

// "n[1-3,07],login" -> n1 n2 n3 n07 login. Error(usage) for what is no node list, or one of more than 65,536 nodes.
std::vector<std::string> expand_node_list(const std::string& list);

}  // namespace perigee
