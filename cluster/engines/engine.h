// A scheduler's answers when it has started us: which of how many processes this is, where the others meet, how it stops us and how often
// it has started us again. One file per engine defines one EngineDef. An engine starts nothing and moves no data.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace perigee {

// getenv, or a test's own.
using Environment = std::function<const char*(const char* name)>;

// Rank 0's announcement to the others.
struct Meeting {
  std::string address, key;
};

struct Engine {
  std::string name;                    // "slurm"
  std::string job;                     // of the scheduler, unique while files of it may exist
  int rank = 0, size = 1;              // rank 0 coordinates and trains, the others train
  int local_rank = 0, local_size = 1;  // on this machine
  // Where the processes meet. A file that rank 0 writes (address and key, readable by its owner only) and all can read ...
  std::string meeting_file;
  // ... or the scheduler's own channel, where it has one: rank 0 tells `mine`, the others give null, each gets what rank 0 told. All must
  // call it, once. Error(cluster) when one does not come, or `stop` is set ...
  std::function<Meeting(const Meeting* mine, const std::atomic<bool>& stop)> exchange;
  // ... or, when all have the cluster's secret, an address that all of them know.
  std::string coordinator;
  int restarts = 0;      // how often the scheduler has started this job again
  bool lasting = false;  // the job keeps its name when it is started again: its run folder is found by it
  bool resumes = false;  // a run folder of this job is there only because it was started before
  int stop_signal = 0;   // beyond SIGTERM: "end soon"; 0: none
  std::string advice;    // something about the way it was started, for the person who did; empty: nothing
};

struct EngineDef {
  const char* name = nullptr;
  const char* doc = nullptr;
  const char* variables = nullptr;  // of the environment, by which it is known
  // Nothing when this process was not started by it. Error(usage) when it was, in a way that makes no sense.
  std::optional<Engine> (*find)(const Environment& environment) = nullptr;
};

std::span<const EngineDef* const> all_engines();
// The engine called `wanted`, or with "auto" the first that has started us; nothing with "none". Error(usage) with the nearest name, or
// when the wanted one has not started us, or with "auto" when a variable tells of several processes and no engine knows which of them this is.
std::optional<Engine> find_engine(const std::string& wanted, const Environment& environment);

// Written atomically; an older one is replaced.
void write_meeting(const std::string& file, const Meeting& meeting);
// Nothing while it is not there. Error(authentication) when others than its owner can read it.
std::optional<Meeting> read_meeting(const std::string& file);

// A number from the environment. Error(usage) naming the variable when it is none or out of range.
std::optional<int> environment_number(const Environment& environment, const char* name, int low, int high);

// Names and folders that the finders share. A text as part of a file's name, at most 100 letters of it.
std::string file_name_of(const std::string& text);
// The same in all processes that one launcher has started on this machine, and in no others. Empty where /proc does not tell.
std::string launcher_mark();
// A port that all can compute from what they share; above those that systems usually hand out by themselves.
int shared_port(const std::string& text);

// "n[1-3,07],login" -> n1 n2 n3 n07 login. Error(usage) for what is no node list, or one of more than 65,536 nodes.
std::vector<std::string> expand_node_list(const std::string& list);

}  // namespace perigee
