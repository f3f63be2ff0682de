// Answers requests of many threads with one model: a thread that finds a free lane computes its own request and all that wait by
// then; the others sleep until theirs is answered. So a lone request costs no change of threads, and concurrent ones share a run.
// The model can be exchanged at any time: each request is answered by exactly one. On the host nothing is allocated for a request.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "src/model/model.h"

namespace perigee {

struct PredictorOptions {
  int64_t max_batch = 32;    // examples that are computed together, at most 1024
  int64_t max_queue = 1024;  // examples that may wait
  int64_t fill_wait_us = 0;  // how long a batch that is not full waits for more
  int lanes = 1;             // batches that are computed at once, each by one thread
  std::string device = {};   // as choose_device() has it; each lane has a GPU of those it names. Empty: the host
};

class Predictor {
 public:
  enum class Outcome : uint8_t { answered, queue_full, too_late, cancelled, failed };

  struct Request {
    const void* const* inputs = nullptr;  // one pointer per input of the model: contiguous rows
    std::byte* output = nullptr;
    int64_t examples = 1;    // 1 to max_batch
    int64_t timeout_us = 0;  // until it must have been begun; 0: none
    uint64_t tag = 0;        // for cancel(); 0: none
    // Written.
    uint64_t model = 0;      // which one answered: 1, and one more after each swap
    int64_t batch = 0;       // examples that were computed together
    char failure[256] = "";  // what became of the device, when the outcome is `failed`
  };

  // Copies the model's parameters and compiles all plans that requests will need. `job`: as ModelSite has it. Error(usage), Error(model).
  Predictor(const Model& model, const Json& job, const PredictorOptions& options);
  ~Predictor();

  const PredictorOptions& options() const { return options_; }
  const std::vector<NetworkInput>& inputs() const { return inputs_; }
  const Type& output() const { return output_; }

  // Blocks until the request is answered or will not be. Any thread.
  Outcome predict(Request& request);
  // From now on requests are answered by a copy of this model, with the same inputs and output; Error(model) otherwise. When it returns,
  // the model before is gone. Its number comes back.
  uint64_t swap(const Model& model, const Json& job);
  // Ends the requests of this tag that wait; those that are being computed are answered. How many it ended.
  int64_t cancel(uint64_t tag);

 private:
  struct Serving;
  struct Waiting;
  struct Lane;

  void link(Waiting& waiting);
  void unlink(Waiting& waiting);
  Outcome wait(std::unique_lock<std::mutex>& lock, Waiting& waiting, Lane** lane);
  void fill(std::unique_lock<std::mutex>& lock, Waiting& own);
  Outcome lead(std::unique_lock<std::mutex>& lock, Lane& lane, Waiting& own);
  void answer_together(Serving& serving, Lane& lane, int64_t rows, const Waiting& first);
  void hand_over(Lane& lane);

  PredictorOptions options_;
  std::vector<NetworkInput> inputs_;
  Type output_;

  std::mutex mutex_;       // of all that follows, but for what a lane's leader computes
  std::mutex swap_mutex_;  // one swap at a time
  std::unique_ptr<Serving> current_;
  std::condition_variable old_is_idle_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Lane*> free_;
  Waiting *first_ = nullptr, *last_ = nullptr;
  int64_t queued_ = 0;          // examples
  Waiting* filling_ = nullptr;  // the leader that waits for more
  uint64_t models_ = 0;
};

}  // namespace perigee
