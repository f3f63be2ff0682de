// SkyPilot: `sky launch` and `sky jobs launch` with num_nodes.
#include <string>

#include "cluster/engines/engine.h"

namespace perigee {
namespace {

std::optional<Engine> find_skypilot(const Environment& environment) {
  const auto rank = environment_number(environment, "SKYPILOT_NODE_RANK", 0, 1 << 20);
  const auto size = environment_number(environment, "SKYPILOT_NUM_NODES", 1, 1 << 20);
  const char* addresses = environment("SKYPILOT_NODE_IPS");  // one a line, the first is that of rank 0
  if (!rank || !size || *rank >= *size || !addresses || !*addresses) return std::nullopt;
  const std::string all = addresses;
  Engine engine{.name = "skypilot", .rank = *rank, .size = *size, .coordinator = all.substr(0, all.find('\n')) + ":7700"};
  // A managed job keeps its id when it is recovered on other machines.
  if (const char* task = environment("SKYPILOT_TASK_ID"); task && *task) engine.job = task, engine.lasting = engine.resumes = true;
  return engine;
}

}  // namespace

extern const EngineDef engine_skypilot;
const EngineDef engine_skypilot{.name = "skypilot",
                                .doc = "SkyPilot with num_nodes",
                                .variables = "SKYPILOT_NODE_RANK, SKYPILOT_NUM_NODES, SKYPILOT_NODE_IPS",
                                .find = find_skypilot};

}  // namespace perigee
