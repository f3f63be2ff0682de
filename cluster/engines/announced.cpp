// Variables by which launchers tell a process that it is one of several. Where no engine understands them, each process would train a run of
// its own without a word: that is refused.
#include "cluster/engines/announced.h"

#include <charconv>
#include <cstring>

#include "src/core/error.h"

namespace perigee {
namespace {

struct Announcement {
  const char* variable;
  const char* of;
  bool counts;        // its value is how many there are; else its presence says that there may be several
  const char* lacks;  // for the person who can complete it; null: nothing is known
};

constexpr Announcement kAnnouncements[] = {
    {"OMPI_COMM_WORLD_SIZE", "Open MPI", true, "OMPI_COMM_WORLD_RANK is missing"},
    {"PMI_SIZE", "a PMI launcher", true, "PMI_RANK or PMI_FD is missing: start it by mpiexec.hydra"},
    {"PMIX_RANK", "a PMIx launcher", false, "its number of processes is asked of libpmix: apt-get install libpmix2"},
    {"MV2_COMM_WORLD_SIZE", "MVAPICH", true, "start it by mpiexec.hydra"},
    {"FLUX_JOB_SIZE", "Flux", true, "its pmi-simple plugin, which sets PMI_FD, is off: flux run -o pmi=simple"},
    {"ALPS_APP_PE", "aprun", false, nullptr},
    {"PALS_RANKID", "Cray PALS", false, nullptr},
    {"JSM_NAMESPACE_SIZE", "jsrun", true, nullptr},
    {"HOROVOD_SIZE", "horovodrun", true, nullptr},
    {"SLURM_STEP_NUM_TASKS", "Slurm", true, "SLURM_PROCID is missing"},
    {"WORLD_SIZE", "a launcher like torchrun", true, "RANK is missing"},
    {"PET_NNODES", "a launcher like torchrun", true, "PET_NODE_RANK is missing"},
    {"DMLC_NUM_WORKER", "a launcher of MXNet", true, nullptr},
    {"AWS_BATCH_JOB_NUM_NODES", "AWS Batch", true, "AWS_BATCH_JOB_NODE_INDEX is missing"},
    {"SKYPILOT_NUM_NODES", "SkyPilot", true, "SKYPILOT_NODE_RANK or SKYPILOT_NODE_IPS is missing"},
    {"JOB_COMPLETION_INDEX", "an Indexed Job of Kubernetes", false, "`perigee submit --k8s` prints one that also sets PERIGEE_SIZE"},
};

}  // namespace

std::string unclaimed_announcement(const Environment& environment, std::string* hint) {
  for (const Announcement& each : kAnnouncements) {
    const char* text = environment(each.variable);
    if (!text || !*text) continue;
    if (each.counts) {
      long value = 0;
      const char* end = text + std::strlen(text);
      const auto [stop, status] = std::from_chars(text, end, value);
      if (status == std::errc() && stop == end && value <= 1) continue;  // one process; a number that is none is worth a word
    }
    if (hint)
      *hint = (each.lacks ? std::string(each.lacks) + "; " : "") + "start one process and give it --workers N, or say --engine none";
    return std::string(each.variable) + "=" + std::string(text).substr(0, 100) + " of " + each.of;
  }
  return "";
}

void refuse_announcement(const Environment& environment) {
  std::string hint;
  const std::string found = unclaimed_announcement(environment, &hint);
  if (!found.empty())
    throw Error(ErrorKind::usage,
                {"the environment variable " + found,
                 "tells of several processes, but not which of them this is; each would train a run of its own", "", "", hint});
}

}  // namespace perigee
