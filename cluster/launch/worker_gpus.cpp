#include "cluster/launch/worker_gpus.h"

#include "cluster/policy/policy.h"
#include "src/core/warning.h"
#include "src/model/device/device_choice.h"

namespace perigee {

int gpus_of_worker(const Json& job, const std::string& where) {
  const int gpus = gpus_of(job, where);
  if (gpus == 1) return 1;
  const Policy policy = read_policy(job.find("averaging"), where);
  return policy.what == Policy::What::gradient && !policy.served ? gpus : 1;
}

std::string only_between_processes(const Json& job, const std::string& where) {
  if (gpus_of(job, where) == 1) return "";
  const Policy policy = read_policy(job.find("averaging"), where);
  if (policy.what != Policy::What::gradient || policy.served) return "";
  const std::string codec = policy.coded() ? "codec '" + policy.codec.find("type")->as_string() + "'" : "";
  return codec + (policy.outer.empty() ? "" : codec.empty() ? "its outer step" : " and its outer step");
}

void warn_of_gpus_in_one_process(const Json& job, const std::string& where) {
  const std::string left_out = only_between_processes(job, where);
  if (left_out.empty()) return;
  const std::string gpus = std::to_string(gpus_of(job, where));
  warn(where + ": averaging: " + left_out + " is for what processes send each other; the " + gpus +
       " GPUs of this one add up float32 gradients. --workers " + gpus + " gives each GPU a process");
}

}  // namespace perigee
