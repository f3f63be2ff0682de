// The variables of torchrun, which many launchers set: Kubeflow, Volcano, Azure ML, and scripts of one's own.
#include <string>

#include "cluster/engines/engine.h"

namespace perigee {
namespace {

std::string torch_text_of(const Environment& environment, const char* name) {
  const char* text = environment(name);
  return text ? text : "";
}

std::optional<Engine> find_torch(const Environment& environment) {
  const std::string run = torch_text_of(environment, "TORCHELASTIC_RUN_ID");
  if (run.empty() && !torch_text_of(environment, "SLURM_STEP_ID").empty()) return std::nullopt;  // by a script inside srun: Slurm says more
  auto rank = environment_number(environment, "RANK", 0, 1 << 20), size = environment_number(environment, "WORLD_SIZE", 1, 1 << 20);
  std::string address = torch_text_of(environment, "MASTER_ADDR"), prefix;
  if (!rank || !size) {  // what torchrun itself would be told: one process a node
    prefix = "PET_";
    rank = environment_number(environment, "PET_NODE_RANK", 0, 1 << 20), size = environment_number(environment, "PET_NNODES", 1, 1 << 20);
    address = torch_text_of(environment, "PET_MASTER_ADDR");
  }
  if (!rank || !size || *rank >= *size) return std::nullopt;
  Engine engine{.name = "torch", .job = run, .rank = *rank, .size = *size};
  engine.local_rank = environment_number(environment, "LOCAL_RANK", 0, 1 << 20).value_or(0);
  const bool here = address == "localhost" || address == "127.0.0.1" || address == "::1";
  engine.local_size = environment_number(environment, "LOCAL_WORLD_SIZE", 1, 1 << 20).value_or(here ? engine.size : 1);
  if (!prefix.empty()) engine.local_rank = 0, engine.local_size = 1;
  engine.restarts = environment_number(environment, "TORCHELASTIC_RESTART_COUNT", 0, 1 << 20).value_or(0);
  engine.lasting = !run.empty() && run != "none";  // "none" is torchrun's default
  int port = environment_number(environment, (prefix + "MASTER_PORT").c_str(), 1, 65535).value_or(29500);
  const std::string store = torch_text_of(environment, "TORCHELASTIC_USE_AGENT_STORE");
  if (store == "True" || store == "1") port = shared_port(run + ":" + std::to_string(port));  // torchrun listens at its own
  if (!address.empty())
    engine.coordinator = (address.find(':') != std::string::npos ? "[" + address + "]:" : address + ":") + std::to_string(port);
  const std::string suffix = "-" + std::to_string(engine.restarts);
  if (engine.local_size == engine.size && !launcher_mark().empty()) {
    const std::string folder = torch_text_of(environment, "TMPDIR");
    engine.meeting_file = (folder.empty() ? "/tmp" : folder) + "/.perigee-torch-" + launcher_mark() + suffix;
  } else if (engine.lasting) {
    engine.meeting_file = "./.perigee-torch-" + file_name_of(run) + suffix;
  }
  return engine;
}

}  // namespace

extern const EngineDef engine_torch;
const EngineDef engine_torch{.name = "torch",
                             .doc = "torchrun, and launchers that set its variables: Kubeflow, Volcano, Azure ML",
                             .variables = "RANK, WORLD_SIZE, MASTER_ADDR, or PET_NODE_RANK, PET_NNODES, PET_MASTER_ADDR",
                             .find = find_torch};

}  // namespace perigee
