// Runs a model forward over batches on a team of threads, or on a device.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "src/core/thread_team.h"
#include "src/data/loader.h"
#include "src/train/model.h"

namespace perigee {

class DeviceInference;
class DeviceModel;

class Inference {
 public:
  // `model`, `team` and `device` must outlive this. `with_loss` needs the model's target among the fields. `device`: the model on a
  // device, which then computes; null: the team does.
  Inference(Model& model, ThreadTeam& team, bool with_loss, int64_t max_batch = 256, DeviceModel* device = nullptr);
  ~Inference();

  struct Result {
    Tensor output;             // [count, ...], link applied; valid rows: count
    std::vector<double> loss;  // [count]; empty without loss
    int64_t count = 0;
  };
  // `fields`: one pointer per model input, then when with loss the target's and those of further heads; contiguous rows. The result is valid until the next call.
  const Result& run(const std::vector<const std::byte*>& fields, int64_t count);
  // The same in two parts, so that the next batch can be read while a device computes: at most ahead() batches are queued and not taken. The
  // team of the host computes when it is queued.
  void queue(const std::vector<const std::byte*>& fields, int64_t count);
  const Result& take();
  size_t ahead() const { return device_ ? 2 : 1; }
  size_t queued() const;
  void forget_queued();
  int64_t max_batch() const { return max_batch_; }  // of a device, for which it has the memory

 private:
  struct Worker;
  void run_on_team(const std::vector<const std::byte*>& fields, int64_t count);
  void make_result(int64_t count);

  Model& model_;
  ThreadTeam& team_;
  std::unique_ptr<PlanSet> plans_;           // of the team
  std::unique_ptr<DeviceInference> device_;  // or this
  bool with_loss_, waiting_ = false;         // the team's result was not taken yet
  int64_t max_batch_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Result result_;
};

// Position of the field `name` in `source`; Error(data) listing the fields when there is none.
int field_index(const DataSource& source, const std::string& name);

}  // namespace perigee
