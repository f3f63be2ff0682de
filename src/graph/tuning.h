// Which kernel won where several could run: measured once per machine kind (for a device: per model, driver and libraries) on real
// operands, kept in a file. A run's share of it, what its plans have asked for, is stored with checkpoints, because results depend on it.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>

#include "src/graph/plan.h"

namespace perigee {

struct KernelList;

// The choice for a step: a kernel, and which of a library's algorithms it takes. As text "cublas" or "cublas#3".
struct KernelChoice {
  std::string kernel;
  int algorithm = 0;
  std::string text() const { return algorithm == 0 ? kernel : kernel + "#" + std::to_string(algorithm); }
};
KernelChoice kernel_choice(const std::string& text);

class Tuning {
 public:
  // From now on choices are those of a device: `identity` says all that they depend on, `name` is for the file's. A table that was made
  // elsewhere, in a checkpoint say, holds choices of other machines beside; they are kept and not looked at.
  void use_device(const std::string& name, const std::string& identity, std::span<const KernelList> kernels);

  // The kernel chosen for a call like this one; empty when it was never measured. From now on it is one of the run's. Thread-safe.
  std::string choice(const std::string& key) const;
  void set(const std::string& key, const std::string& kernel);
  bool empty() const;
  uint64_t changes() const;  // another number once a choice was added, or became one of the run's; never 0

  Json to_json() const;  // {"<key>": "<kernel>"}
  Json of_run() const;   // the same: those that were asked for, set or adopted
  // Error(model) when it is no such object; unknown kernels are ignored when they are looked up.
  void merge(const Json& choices) { merge(choices, false); }
  void adopt(const Json& choices) { merge(choices, true); }  // they are the run's, asked for or not

  // The table of this machine kind (CPU model, instruction set; or the device) and set of kernels in the user's cache folder. Missing or
  // damaged files read as empty, damaged ones with a warning: the worst that follows is measuring again. save() merges with what other
  // processes wrote, under a file lock.
  std::string machine_file() const;
  void load_machine();
  void save_machine() const;

  // The key of a step's choice. With `exact` it includes the batch: for choices that only a call of that size needs.
  std::string key_of(const PlanStep& step, bool exact = false) const;

 private:
  struct Choice {
    std::string kernel;
    mutable bool of_run = false;  // results may depend on it
  };
  void merge(const Json& choices, bool of_run);
  Json of_this_machine() const;
  void load(const std::string& file, bool tell);

  mutable std::mutex mutex_;
  std::string machine_, prefix_;  // of a device; empty: this machine's CPU
  std::map<std::string, Choice> choices_;
  mutable uint64_t changes_ = 1;
};

// Runs the plan step by step on the memory bound in `run` and measures the alternatives of every step that has some and is not in
// `tuning` yet; adds the winners. Parameters and external outputs keep their values; the arena does not. Returns how many it measured.
// `packs_per_run` is how often weights are packed for each run of a plan: their share of the time belongs to a kernel's price.
int tune(PlanRun& run, const PlanOptions& options, const StepInfo& step, double packs_per_run, Tuning& tuning);

}  // namespace perigee
