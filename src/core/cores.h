// How much of the machine this process may use. A container sees all cores of its machine and all of its memory, and may use fewer.
#pragma once

#include <cstdint>
#include <string>

namespace perigee {

// Cores that the process may run on, and no more than its control group's quota, rounded up. At least 1.
int available_cores();
// The same without regard to which cores the process itself is bound to: what it shares with others of its machine.
int machine_cores();
// Bytes that its control group may hold; 0: no limit but the machine's.
int64_t memory_limit();

// The same of a file system at `root`, of which tests have their own: cores, or 0 without a quota.
int quota_cores(const std::string& root);
int64_t quota_memory(const std::string& root);

}  // namespace perigee
