// What a job's "device" and --device say: "cpu", "ref", "cuda", "cuda:1", "cuda:0-3", "cuda:0,2", "auto" (a GPU where there is one, else the
// CPU), "check:cpu,ref"; and "devices": how many GPUs.
#pragma once

#include <string>

#include "src/io/json.h"
#include "src/train/trainer.h"

namespace perigee {

class DeviceModel;
class Gpu;

// Error(usage) when there is no such device, with `where` in front. Writes backend, devices and check. `worker`: of several on this machine,
// counted from 0; each takes `gpus` of those that are named ("auto" and "cuda" name all), no two the same as long as there are enough.
void choose_device(const std::string& device, const std::string& where, int worker, int gpus, TrainerOptions* options);
// For who trains alone: all that the job names.
void choose_device(const Json& job, const std::string& where, TrainerOptions* options);

// The job's "device"; "cpu" when it names none.
std::string device_of(const Json& job);
// How many GPUs train together: "devices", else as many as "device" lists. Error(model).
int gpus_of(const Json& job, const std::string& where);

// A trained model where `eval` and `predict` compute with it: on the host, or on a GPU.
class ModelSite {
 public:
  // `device` as above, of the CPU or a GPU; `job`: the model's, which may ask for tf32 or determinism, or null. `model` must outlive this.
  ModelSite(Model& model, const Json& job, const std::string& device, const std::string& where, int worker);
  ~ModelSite();
  DeviceModel* device() const { return device_.get(); }  // null: the host

 private:
  Tuning tuning_;
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<DeviceModel> device_;
};

}  // namespace perigee
