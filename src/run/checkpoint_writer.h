// Writes checkpoints beside the training: a thread serialises, syncs and renames while the trainer makes its next steps. Of what comes while it
// writes, only the newest waits; a waiting best one waits beside it. So a run whose epochs take a millisecond is not held up by a disk
// that needs ten for a file, and the thread takes a small share of what the trainer computes.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/run/checkpoint_folder.h"

namespace perigee {

struct CheckpointKinds {
  bool newest = false;  // "step-....safetensors"
  bool best = false;    // "best.safetensors"
};

struct CheckpointResult {
  int64_t step = 0;
  bool best = false;
  std::string file;     // empty: it was not written
  std::string problem;  // why
};

// Its functions belong to the thread that trains. `folder` outlives it.
class CheckpointWriter {
 public:
  static constexpr double kLongestRest = 8;  // seconds

  // No second copy of large numbers waits: the trainer does, for a while.
  struct Limits {
    size_t large_bytes = size_t{256} << 20;
    double wait_s = 600;
  };

  explicit CheckpointWriter(CheckpointFolder& folder, double longest_rest_s = kLongestRest)
      : CheckpointWriter(folder, longest_rest_s, {}) {}
  CheckpointWriter(CheckpointFolder& folder, double longest_rest_s, const Limits& limits)
      : folder_(folder), longest_rest_s_(longest_rest_s), limits_(limits) {}
  ~CheckpointWriter();  // writes what waits

  // Copies the trainer's numbers and returns; the file is written soon. It takes the place of what waits to be written as the same.
  // Error(resources) when there is no memory for the copy, or the one before is not written for so long.
  void keep(const Trainer& trainer, const Json& extra, CheckpointKinds kinds);
  // Whether a file would be begun at once: nothing is being written, and the rest after the last one is over.
  bool free();
  // Without a pause between two files until everything is written.
  void hurry();
  // Returns when everything is written or has failed; false when that takes longer than `seconds`.
  bool finish(double seconds);
  // The files since the last call, the oldest first.
  std::vector<CheckpointResult> take_results();

 private:
  using Clock = std::chrono::steady_clock;
  using Snapshot = std::shared_ptr<CheckpointSnapshot>;
  struct Work {
    Snapshot newest, best;
    bool any() const { return newest || best; }
    bool has(const Snapshot& snapshot) const { return newest == snapshot || best == snapshot; }
    void take(const Work& later);
  };
  Snapshot free_snapshot();
  void write_on_thread();
  void rest(std::unique_lock<std::mutex>& lock, Clock::time_point begun, double trained_s, double written_s);
  CheckpointResult write(const CheckpointSnapshot& snapshot, bool best);

  CheckpointFolder& folder_;
  const double longest_rest_s_;
  const Limits limits_;
  std::vector<Snapshot> snapshots_;  // all that there are, with their memory
  std::mutex mutex_;                 // of what follows
  std::condition_variable changed_;
  Work writing_, waiting_;
  bool resting_ = false;  // between two files
  bool hurried_ = false, closing_ = false;
  std::vector<CheckpointResult> results_;
  clockid_t trainer_clock_ = CLOCK_MONOTONIC;  // what the thread that trains has computed
  std::thread thread_;                         // started for the first checkpoint
};

}  // namespace perigee
