// An Indexed Job of Kubernetes, as `perigee submit --k8s` prints it: the manifest says how many pods there are and where the first one is.
#include <string>

#include "cluster/engines/engine.h"

namespace perigee {
namespace {

std::optional<Engine> find_kubernetes(const Environment& environment) {
  const auto rank = environment_number(environment, "JOB_COMPLETION_INDEX", 0, 1 << 20);
  const auto size = environment_number(environment, "PERIGEE_SIZE", 1, 1 << 20);
  const char* coordinator = environment("PERIGEE_COORDINATOR");
  if (!rank || !size || !coordinator || !*coordinator || *rank >= *size) return std::nullopt;
  Engine engine{.name = "kubernetes", .rank = *rank, .size = *size, .coordinator = coordinator};
  // The job's uid. A pod that comes back does not know how often it was there; but another job has another uid.
  if (const char* job = environment("PERIGEE_JOB"); job && *job) engine.job = job, engine.lasting = engine.resumes = true;
  return engine;
}

}  // namespace

extern const EngineDef engine_kubernetes;
const EngineDef engine_kubernetes{.name = "kubernetes",
                                  .doc = "an Indexed Job, as perigee submit --k8s prints it",
                                  .variables = "JOB_COMPLETION_INDEX, PERIGEE_SIZE, PERIGEE_COORDINATOR",
                                  .find = find_kubernetes};

}  // namespace perigee
