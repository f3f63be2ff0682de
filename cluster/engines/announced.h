// Launchers that say "there are n of you" in a way that no engine understands.
#pragma once

#include <string>

#include "cluster/engines/engine.h"

namespace perigee {

// "WORLD_SIZE=4 of a launcher like torchrun", the first of those in this environment; empty: none. `hint`: what can be done; may be null.
std::string unclaimed_announcement(const Environment& environment, std::string* hint);
// Error(usage) that names it.
void refuse_announcement(const Environment& environment);

}  // namespace perigee
