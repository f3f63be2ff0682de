// Which kernel won where several could run: measured once per machine kind on real operands, kept in a file, stored with
// checkpoints, because it is part of what results depend on (DESIGN decision 11).
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "src/graph/plan.h"

namespace perigee {

class Tuning {
 public:
  // The kernel chosen for a call like this one; empty when it was never measured. Thread-safe.
  std::string choice(const std::string& key) const;
  void set(const std::string& key, const std::string& kernel);
  bool empty() const;

  Json to_json() const;             // {"<key>": "<kernel>"}
  void merge(const Json& choices);  // Error(model) when it is no such object; unknown kernels are ignored when they are looked up

  // the table of this machine kind (CPU model, instruction set) and set of kernels in the user's cache folder. Missing or damaged files read as
  // empty: the worst that follows is measuring again. save() merges with what other processes wrote, under a file lock.
  static std::string machine_file();
  void load_machine();
  void save_machine() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> choices_;
};

// What makes two calls alike for tuning: op, dtypes, shapes without the batch, memory order. The shapes of operands and results tell stride and padding apart well enough.
std::string tuning_key(const PlanStep& step);

// Runs the plan step by step on the memory bound in `run` and measures the alternatives of every step that has some and is not in
// `tuning` yet; adds the winners. Parameters and external outputs keep their values; the arena does not. Returns how many it measured.
// `packs_per_run` is how often weights are packed for each run of a plan: their share of the time belongs to a kernel's price.
int tune(PlanRun& run, const PlanOptions& options, const StepInfo& step, double packs_per_run, Tuning& tuning);

}  // namespace perigee
