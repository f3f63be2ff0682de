// A trainer's options beside its job: threads or GPUs, what it may measure, a way to open the data.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/core/config.h"
#include "src/core/trace.h"
#include "src/data/source.h"
#include "src/model/device/device_choice.h"

namespace perigee {

// Opens a part ("train", "test") of a job's data instead of open_source: examples that another node reads (data.at = "coordinator").
class SourceOpener {
 public:
  virtual ~SourceOpener() = default;
  virtual SourcePtr open(const std::string& part, const Config& description, const std::string& folder) = 0;
  // Where a file lies that the job names beside its data, as a model to start from. `where` names it in errors.
  virtual std::string locate(const std::string& path, const std::string& where, const std::string& folder);
};

struct TrainerOptions {
  int threads = 0;  // 0: the job's, or one per core
  Backend backend = Backend::cpu;
  std::vector<int> devices = {0};  // of Backend::cuda: the GPUs that train together, each with the job's batch
  bool check = false;              // compare every kernel with ref; step() throws at the first that disagrees
  int64_t sub_batch = 0;           // examples that a thread takes through the plan at once; 0: chosen by measuring
  // False: nothing is measured and this machine's table is not read. What `tuning` does not say is a function of the job and the
  // threads alone, so that trainers on like machines give the same bits.
  bool measure = true;
  Json tuning;                     // choices that come before those of this machine's table; null: none
  bool unread = false;             // the data are with others, and this trainer never steps: kernels are measured on zeros
  SourceOpener* opener = nullptr;  // null: open_source; outlives the trainer
  TraceRing* trace = nullptr;      // of the timeline; null: none; outlives the trainer
  int64_t blocks_beside = 0;       // of the parameters' size, that the caller will take of the GPU: no data set lies there
  int64_t shards = 1;              // of the order of the training data, which is a worker's: LoaderOptions::shards

  void use(DeviceChoice choice) { backend = choice.backend, devices = std::move(choice.devices), check = choice.check; }
};

}  // namespace perigee
