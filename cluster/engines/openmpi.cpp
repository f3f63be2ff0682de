// Open MPI: `mpirun -n 4 perigee train ...`. MPI itself is never initialised, so a rank that is killed need not end the others (with
// --enable-recovery); what mpirun puts into the environment is all that is needed.
#include <string>

#include "cluster/engines/engine.h"

namespace perigee {
namespace {

// A folder of the job that mpirun makes, private to the user, on this machine.
std::string session_folder(const Environment& environment) {
  for (const char* name : {"OMPI_MCA_orte_jobfam_session_dir", "PMIX_SERVER_TMPDIR", "PRTE_MCA_prte_jobfam_session_dir"})
    if (const char* folder = environment(name); folder && *folder == '/') return folder;
  return "";
}

std::string job_name(const Environment& environment) {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid", "OMPI_MCA_ess_base_jobid"})
    if (const char* job = environment(name); job && *job) return file_name_of(job);
  return "job";
}

std::optional<Engine> find_openmpi(const Environment& environment) {
  const auto rank = environment_number(environment, "OMPI_COMM_WORLD_RANK", 0, 1 << 20);
  const auto size = environment_number(environment, "OMPI_COMM_WORLD_SIZE", 1, 1 << 20);
  if (!rank || !size) return std::nullopt;
  Engine engine{.name = "openmpi", .job = job_name(environment), .rank = *rank, .size = *size};
  engine.local_rank = environment_number(environment, "OMPI_COMM_WORLD_LOCAL_RANK", 0, 1 << 20).value_or(0);
  engine.local_size = environment_number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, 1 << 20).value_or(1);
  engine.restarts = environment_number(environment, "OMPI_MCA_orte_num_restarts", 0, 1 << 20).value_or(0);
  // All on one machine: in the job's own folder. Else in the folder it was started in, which machines of a cluster mostly share.
  const std::string folder = engine.local_size == engine.size ? session_folder(environment) : "";
  engine.meeting_file = (folder.empty() ? "." : folder) + "/.perigee-openmpi-" + engine.job;
  const char* recovery = environment("OMPI_MCA_orte_enable_recovery");
  if (engine.size > 1 && (!recovery || std::string(recovery) != "1"))
    engine.advice = "mpirun ends the whole job when a rank is killed; with --enable-recovery the others go on";
  return engine;
}

}  // namespace

extern const EngineDef engine_openmpi;
const EngineDef engine_openmpi{
    .name = "openmpi", .doc = "mpirun of Open MPI", .variables = "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE", .find = find_openmpi};

}  // namespace perigee
