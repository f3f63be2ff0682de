// Commands to a run while it trains, by `perigee attach` or the prompt that started it: one command, as JSON with one member.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cluster/protocol/message.h"
#include "src/core/json.h"

namespace perigee {

struct SteerCommand {
  std::optional<WorkerId> kick;  // {"kick": 7}: that worker is sent away, as one that was lost
  std::optional<bool> pause;     // {"pause": true}: between two rounds, until {"pause": false}
  std::optional<int64_t> every;  // {"every": 20}: local steps between two averages
  std::string option;            // {"set": {"option": "optimizer.lr", "value": 0.01}}: instead of the job's; empty: not asked for
  Json value;                    // of it: a boolean, a number or a schedule
  bool checkpoint = false;       // {"checkpoint": true}: one is written now
  bool stop = false;             // {"stop": true}: as Ctrl-C does where the run was started

  std::string text() const;  // for people: "every = 20"
};

// Error(usage) for anything that is not exactly one command.
SteerCommand read_steer(const Json& command);

}  // namespace perigee
