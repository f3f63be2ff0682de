// Steps on a GPU lack some of what those on a host have. A job that needs it is refused when it is read.
#pragma once

#include <string>

namespace perigee {

// Error(usage): the job's optimiser is a rule of its own.
[[noreturn]] void refuse_own_rule(const std::string& where);

// Error(usage): the job's optimiser has slow weights.
[[noreturn]] void refuse_lookahead(const std::string& where);

}  // namespace perigee
