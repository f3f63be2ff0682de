#include "cluster/worker_gpus.h"

#include "cluster/policy.h"
#include "src/train/device_choice.h"

namespace perigee {

int gpus_of_worker(const Json& job, const std::string& where) {
  const int gpus = gpus_of(job, where);
  if (gpus == 1) return 1;
  const Policy policy = read_policy(job.find("averaging"), where);
  return policy.what == Policy::What::gradient && !policy.served ? gpus : 1;
}

}  // namespace perigee
