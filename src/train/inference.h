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

 private:
  struct Worker;
  void run_on_team(const std::vector<const std::byte*>& fields, int64_t count);
  void run_on_device(const std::vector<const std::byte*>& fields, int64_t count);

  Model& model_;
  ThreadTeam& team_;
  std::unique_ptr<PlanSet> plans_;           // of the team
  std::unique_ptr<DeviceInference> device_;  // or this
  std::vector<std::byte> losses_;            // of the device, in the model's type
  bool with_loss_;
  int64_t max_batch_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Result result_;
};

// Position of the field `name` in `source`; Error(data) listing the fields when there is none.
int field_index(const DataSource& source, const std::string& name);

}  // namespace perigee
