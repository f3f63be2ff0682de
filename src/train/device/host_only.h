// What the steps of a job need and those on a GPU do not have: refused when the job is read.
#pragma once

#include <string>

namespace perigee {

// Error(usage): `carried` names what rows carry from batch to batch, which is kept for the threads of a host.
[[noreturn]] void refuse_carried_state(const std::string& where, const std::string& carried);

}  // namespace perigee
