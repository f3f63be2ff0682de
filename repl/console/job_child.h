// The job that a script describes, for completion while its name is typed: a process of its own evaluates the script, so that whatever the
// script prints, waits for or breaks stays there.
#pragma once

#include <string>

namespace perigee {

// As JSON; empty when there is none within two seconds.
std::string job_of_script(const std::string& path);

}  // namespace perigee
