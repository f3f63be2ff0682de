// Runs a model forward over batches on a team of threads, or on one or several devices, which take whole batches in turns: so what comes of a
// batch does not depend on how many there are.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "src/core/thread_team.h"
#include "src/data/loader.h"
#include "src/model/plans/plan_set.h"

namespace perigee {

class CarriedRows;
class CutFields;
class DeviceInference;
class DeviceModel;

class Inference {
 public:
  // `model`, `team` and `devices` must outlive this. `with_loss` needs the model's target among the fields. `devices`: the model on each of
  // them, which then compute; none: the team does. `more`: outputs that are given beside the main one.
  Inference(Model& model, ThreadTeam& team, bool with_loss, int64_t max_batch = 256, std::span<DeviceModel* const> devices = {},
            std::vector<ModelOutput> more = {});
  ~Inference();

  // Before the first batch: row i of every batch of `rows` goes on where row i of the batch before ended. On the host.
  void carry(int64_t rows);
  void restart();  // every row begins anew

  struct Result {
    Tensor output;             // [count, ...], link applied; valid rows: count
    std::vector<Tensor> more;  // likewise the further outputs
    std::vector<double> loss;  // [count]; empty without loss
    int64_t count = 0;
  };
  // `fields`: one pointer per model input, then when with loss the target's and those of further heads; contiguous rows. The result is valid until the next call.
  const Result& run(const std::vector<const std::byte*>& fields, int64_t count);
  // The same in two parts, so that the next batch can be read while devices compute: at most ahead() batches are queued and not taken; they
  // are taken in the order in which they were queued. The team of the host computes when it is queued.
  void queue(const std::vector<const std::byte*>& fields, int64_t count);
  const Result& take();
  size_t ahead() const { return devices_.empty() ? 1 : 2 * devices_.size(); }
  size_t queued() const { return queued_ - taken_; }
  void forget_queued();
  // All examples, in batches of max_batch() (devices take powers of two, so that few graphs do for any number), or in one where the network
  // lets them depend on each other. `inputs`: one pointer per model input; `output`: a row of the model's output for each.
  void run_all(std::span<const void* const> inputs, int64_t examples, std::byte* output);
  int64_t max_batch() const { return max_batch_; }  // of a device, for which it has the memory

 private:
  struct Worker;
  void run_on_team(const std::vector<const std::byte*>& fields, int64_t count);
  void run_cut(const std::vector<const std::byte*>& fields, int64_t count);
  void make_result(int64_t count);

  Model& model_;
  ThreadTeam& team_;
  std::unique_ptr<PlanSet> plans_;                         // of the team
  std::vector<std::unique_ptr<DeviceInference>> devices_;  // or these
  bool with_loss_;
  std::vector<ModelOutput> more_;
  size_t queued_ = 0, taken_ = 0;  // batches
  int64_t max_batch_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<CarriedRows> carried_;
  std::unique_ptr<CutFields> cut_;  // of examples that have lengths
  Result result_;
};

// Position of the field `name` in `source`; Error(data) listing the fields when there is none.
int field_index(const DataSource& source, const std::string& name);

}  // namespace perigee
