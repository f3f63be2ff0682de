// Runs a model forward over batches on a team of threads.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "src/core/thread_team.h"
#include "src/data/loader.h"
#include "src/train/model.h"

namespace perigee {

class Inference {
 public:
  // `model` and `team` must outlive this. `with_loss` needs the model's target among the fields.
  Inference(Model& model, ThreadTeam& team, bool with_loss, int64_t max_batch = 256);
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
  Model& model_;
  ThreadTeam& team_;
  PlanSet plans_;
  bool with_loss_;
  int64_t max_batch_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Result result_;
};

// Position of the field `name` in `source`; Error(data) listing the fields when there is none.
int field_index(const DataSource& source, const std::string& name);

}  // namespace perigee
