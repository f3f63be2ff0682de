// Steps on a GPU lack some of what those on a host have. A job that needs it is refused when it is read.
#pragma once

#include <string>

namespace perigee {

// Error(usage): `carried` names what rows carry from batch to batch, which is kept for the threads of a host.
[[noreturn]] void refuse_carried_state(const std::string& where, const std::string& carried);

}  // namespace perigee
