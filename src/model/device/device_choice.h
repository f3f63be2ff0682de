// A job's "device" and --device take: "cpu", "ref", "cuda", "cuda:1", "cuda:0-3", "cuda:0,2", "auto" (a GPU where there is one, else the
// CPU), "check:cpu,ref"; and "devices": how many GPUs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/json.h"
#include "src/graph/tuning.h"
#include "src/model/model.h"

namespace perigee {

class DeviceModel;
class Gpu;

struct DeviceChoice {
  Backend backend = Backend::cpu;
  std::vector<int> devices = {0};  // of Backend::cuda
  bool check = false;              // every kernel beside the reference
};
// Error(usage) when there is no such device, with `where` in front. `worker`: one of several on this machine, counted from 0; each takes
// `gpus` of those that are named ("auto" and "cuda" name all), no two the same as long as there are enough.
DeviceChoice choose_device(const std::string& device, const std::string& where, int worker, int gpus);
// All that the job names, for a process that trains alone.
DeviceChoice choose_device(const Json& job, const std::string& where);

// The job's "device"; where it names none "cuda" if it says how many, else "cpu".
std::string device_of(const Json& job);
// How many GPUs train together: "devices", else as many as "device" lists. Error(model).
int gpus_of(const Json& job, const std::string& where);
int gpus_of(const std::string& device);  // that a device such as "cuda:0-3" lists; 1 where it is no list

// A trained model where `eval` and `predict` compute with it: on the host, or on GPUs.
class ModelSite {
 public:
  // `device` as above, of the CPU or of GPUs; `job`: the model's, which may ask for tf32 or determinism, or null. `model` must outlive this.
  // `worker`: of several processes, each of which takes one of the GPUs; none: this one takes all that are named.
  ModelSite(Model& model, const Json& job, const std::string& device, const std::string& where, std::optional<int> worker);
  ~ModelSite();
  std::span<DeviceModel* const> devices() const { return models_; }  // none: the host
  void host_changed() const;                                         // the model's numbers, or they are about to

 private:
  Tuning tuning_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::vector<std::unique_ptr<DeviceModel>> devices_;
  std::vector<DeviceModel*> models_;
};

}  // namespace perigee
